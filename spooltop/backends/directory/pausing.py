"""Pausing a spool and resuming it."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from spooltop.engine.atomic import drafts_of, publish_new
from spooltop.engine.dirs import OWN, SpoolDirs
from spooltop.engine.names import parse
from spooltop.engine.pausing import CHECK_EVERY, PAUSED, encode_pause, read_pause
from spooltop.model import Capabilities, Observation, Pause, Unreadable, pause_words
from spooltop.model.plan import Candidates, Item, Plan, Refusal, Request, RowItem
from spooltop.model.vocabulary import Action, Box, Row, Stop, Verdict, count, escape

from ..journal import Intent, ItemOutcome, PinnedChange, RecordType, Skipped, Standing, Told, ValueOperator, ref_of
from ..log_store import LogStore
from ..plan_options import pause_reason
from .storage import OpenOptions, Pin, System, can_change, pinned

# The log of pauses, one JSON object a line; an operation sets or removes one file, so its lines have no step number. intent
# schema line operation action time user undoes before after result schema line operation time outcome reason ``before`` and
# ``after`` are the pause that the spool had and the one that it gets, an object with ``by``, ``at`` and ``reason``, or null
# while it is not paused.


class PauseIntent(Intent):
    """The intent to pause a spool or to resume it. None: not paused."""

    before: Pause | None
    after: Pause | None

    def told(self) -> Iterator[Told]:
        yield self.words, self.words, self.words

    @property
    def words(self) -> str:
        """The change in words, in the list of operations."""
        if self.after is None:
            return f"resumed; it was paused{_reason(self.before)}"
        return f"paused{_reason(self.after)}"


PAUSES = RecordType(
    "pauses", "the journal of pauses", "", PauseIntent, ItemOutcome, (Action.PAUSE, Action.RESUME, Action.UNDO)
)
"""The record type of the log of pauses."""


def _reason(pause: Pause | None) -> str:
    if pause is None:
        return ""
    by = f" by {escape(pause.by)}" if pause.by is not None else ""
    return by + (f": {escape(pause.reason)}" if pause.reason else "")


# Notes of a plan to pause or to resume: the consumers that are at work now, and those that a pause does not stop.

_NAMED_AT_MOST = 5


def pause_notes(observation: Observation, path: str) -> tuple[str, ...]:
    """The notes of a plan to pause the spool at ``path``, as given."""
    claims = [(row, parse(row.name, claimed=True).token is not None) for row in observation.claims]
    living = _who(row for row, is_ours in claims if is_ours and row.verdict is Verdict.ALIVE)
    many = max(observation.consumers or 0, len(living))
    named = f" ({_listed(living)})" if living else ""
    if not many:
        at_work = "No spooltop consumer is at work now."
    else:
        one, more = "It finishes its current message, and takes", "They finish their current messages, and take"
        at_work = (
            f"At work now: {count(many)} spooltop consumer{'s' if many > 1 else ''}{named}. "
            f"{more if many > 1 else one} no other after {CHECK_EVERY:g} s."
        )
    hold = f"hold keeps messages from them: {shlex.join(('spooltop', 'hold', path, '--box', 'new', 'ALL'))}"
    foreign = _who(row for row, is_ours in claims if not is_ours and row.verdict is not Verdict.DEAD)
    too = f", and are at work now ({_listed(foreign)})" if foreign else ""
    return at_work, f"Consumers that are not spooltop's do not obey{too}. {hold}"


def resume_notes(observation: Observation) -> tuple[str, ...]:
    """The note of a plan to resume."""
    running = observation.consumers or 0
    if not running:
        return ("No spooltop consumer is seen waiting; one that has claimed nothing yet is not visible.",)
    if running == 1:
        return ("1 spooltop consumer is running and claims again within a second.",)
    return (f"{count(running)} spooltop consumers are running and claim again within a second.",)


def _who(rows: Iterable[Row]) -> list[str]:
    """The pids of the holders, each once."""
    pids = dict.fromkeys(row.owner.pid if row.owner is not None else None for row in rows)
    return ["unknown" if pid is None else str(pid) for pid in pids]


def _listed(who: list[str]) -> str:
    more = f" and {count(len(who) - _NAMED_AT_MOST)} more" if len(who) > _NAMED_AT_MOST else ""
    return f"pid {', '.join(who[:_NAMED_AT_MOST])}{more}"

# Pauses a spool and resumes it. Undo gives back the state before, with who paused it, when and why.

class PauseRef(PinnedChange[PauseIntent]):
    """The pin of a plan, with what identifies the file of the pause that was found, None where there was none."""

    pin: Pin | None


PauseState = tuple[Pause | None, Pin | None]
"""The pause of a spool, and what identifies its file."""


class PauseOperator(ValueOperator[PauseIntent, PauseState]):
    """Implements ``model.backend.Operator`` for the pause of the spool at ``path``. ``look`` observes its claims, for the notes
    of a plan; ``given`` is the path as it was given."""

    cut_short = "it was done", "it was not done"

    def __init__(
        self, path: str, store: LogStore, look: Callable[[], Observation], options: OpenOptions, world: System, *, given: str
    ) -> None:
        super().__init__(os.path.abspath(path), store, PAUSES, clock=world.clock, read_only=options.read_only)
        self._files = world.files
        self._look = look
        self._given = given

    def capabilities(self) -> Capabilities:
        with self._translate_errors(), SpoolDirs(self._path, self._files) as dirs:
            return can_change(dirs)

    def _choose(self, request: Request, state: PauseState) -> Candidates:
        """Pins the state of the spool; the selection means nothing. Options of PAUSE: ``reason``, a text. Raises
        ``UsageError`` for one that is too long."""
        reason = pause_reason(request.options)
        (pause, pin), row = state, self._row()
        if os.path.isdir(row.name) and not os.path.islink(row.name):
            raise Unreadable(f"{OWN}/{PAUSED} is a directory", "find out who made it, and remove it", path=self._path)
        if request.action is Action.PAUSE:
            if pause is not None:
                return Candidates(refused=[Refusal(row, f"it is paused already, {pause_words(pause, request.at)}")])
            words = "Consumers of spooltop claim no message until it is resumed"
            item = RowItem(row, PauseRef(PauseIntent(None, Pause(self._user, request.at, reason)), None), words=words)
            return Candidates([item], notes=self._notes(lambda seen: pause_notes(seen, self._given)))
        if pause is None:
            return Candidates(refused=[Refusal(row, "it is not paused")])
        words = f"Consumers claim messages again. Paused {pause_words(pause, request.at)}"
        return Candidates([RowItem(row, PauseRef(PauseIntent(pause, None), pin), words=words)], notes=self._notes(resume_notes))

    def _notes(self, notes: Callable[[Observation], tuple[str, ...]]) -> tuple[str, ...]:
        try:
            return notes(self._look())
        except Unreadable as error:  # no reason not to pause it
            return (f"Who is at work now is not visible: {escape(str(error))}.",)

    def _intent(self, plan: Plan, place: int, items: Sequence[Item]) -> PauseIntent:
        intent = super()._intent(plan, place, items)
        if plan.action is Action.PAUSE and intent.after is not None:
            return intent.replace(after=intent.after.replace(at=self._clock()))  # it may have been planned long ago
        return intent

    @contextmanager
    def _state(self) -> Iterator[PauseState]:
        with self._translate_errors(), SpoolDirs(self._path, self._files) as dirs:
            own = dirs.private_dir()
            found = None if own is None else self._files.status(PAUSED, own)
            yield read_pause(dirs), None if found is None else pinned(found)  # of another since, the pin is still the old one

    def _standing(self, intent: PauseIntent, state: PauseState) -> Standing:
        now, _ = state
        too_late = f"too late: it was {'resumed' if now is None else 'paused again'} since"
        return Standing(now == intent.after, now == intent.before, None if now == intent.after else too_late)

    def _words_of(self, intent: PauseIntent) -> str:
        return intent.words

    def _change(self, item: Item, intent: PauseIntent, stop: Stop) -> None:
        with SpoolDirs(self._path, self._files) as dirs:
            if intent.after is not None:
                if not publish_new(self._files, dirs.own_dir(), PAUSED, encode_pause(intent.after), dirs.owner_model):
                    raise Skipped("it was paused meanwhile")
                return
            own = dirs.private_dir()
            try:
                if own is None or pinned(found := self._files.stat(PAUSED, own)) != ref_of(item, PauseRef).pin:
                    raise Skipped("it was resumed or paused again meanwhile")
                for name in (*drafts_of(self._files, found, own, PAUSED), PAUSED):
                    self._files.unlink(name, own)
            except FileNotFoundError:
                raise Skipped("it was resumed meanwhile") from None
            self._files.sync_dir(own)

    def _set_back(self, intent: PauseIntent, state: PauseState) -> Candidates:
        (now, pin), before = state, intent.before
        words = "Consumers claim messages again" if before is None else f"Paused {pause_words(before, self._clock())} again"
        return Candidates([RowItem(self._row(), PauseRef(PauseIntent(now, before), pin), words=words)])

    def _row(self, intent: PauseIntent | None = None) -> Row:
        return Row(key=self._path, box=Box.CUR, id=self._path, name=os.path.join(self._path, OWN, PAUSED))
