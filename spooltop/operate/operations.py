"""Common path of every change: plan, apply, result.

The Operator defines the items and moves them. This module defines, for every kind of spool, the confirmation, the audit and the
end of an operation.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shlex
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import overload

from msgspec import Struct, field, to_builtins
from msgspec.structs import asdict

from spooltop.engine.files import NotRegular, read_small
from spooltop.errors import NoSuchOperation, Refused, SpooltopError, UsageError
from spooltop.model import Observation, Operator, Redactor, full_name, has_scheme
from spooltop.model.plan import (
    Actor,
    AuditTrail,
    Confirm,
    Item,
    ItemResult,
    OperationRecord,
    Outcome,
    Plan,
    Progress,
    Request,
    Result,
    Results,
    Selection,
    done,
)
from spooltop.model.vocabulary import WHOLE, Action, Box, Clock, Json, JsonObject, Stop, Verdict, age, duration, escape

# Files of the user: the text of test messages, read once, when the plan is made, so that the messages that are put are those that
# were shown; a message that is saved, which never replaces another file.

MOST_BYTES = 16 << 20


def with_file(options: JsonObject) -> dict[str, Json]:
    """Returns the options with the content of ``file``, if it is given, as ``text``. Raises ``UsageError`` if it is not a
    readable regular file of at most 16 MiB; a fifo is not waited for."""
    name = options.get("file")
    if name is None:
        return dict(options)
    if not isinstance(name, str) or not name or "\0" in name:
        raise UsageError("inject: empty file name")
    if options.get("text") is not None or options.get("size") is not None:
        raise UsageError("inject: a file cannot be combined with a text or a size", "give one of them")
    try:
        data = read_small(os.path.expanduser(name), limit=MOST_BYTES, whole=True, follow=True).data
    except OSError as error:
        what, advice = f"cannot be read: {error.strerror}", "name a file of yours"
        if isinstance(error, NotRegular):
            what, advice = "is not a regular file", "name one that holds the message"
        elif error.errno == errno.EFBIG:
            what, advice = "is larger than 16 MiB", "give --size for large messages"
        raise UsageError(f"inject: {escape(name)} {what}", advice) from None
    return {**options, "text": os.fsdecode(data)}


def save_file(path: str, data: bytes) -> str:
    """Writes ``data`` into a new file that only its owner may read; returns its absolute path. Raises ``Refused`` where the file
    exists or cannot be written; nothing is left of it then."""
    path = os.path.abspath(os.path.expanduser(path))
    try:
        file = open(path, "xb", opener=partial(os.open, mode=0o600))  # noqa: SIM115  # closed below
    except FileExistsError:
        raise Refused("exists already", "give another name", path=escape(path)) from None
    except (OSError, ValueError) as error:
        raise Refused(_reason(error), "give another name", path=escape(path)) from None
    try:
        with file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        os.unlink(path)
        raise Refused(_reason(error), "nothing was saved", path=escape(path)) from None
    return path


def _reason(error: OSError | ValueError) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def to_syslog(words: str, *, notice: bool = False) -> None:
    """Writes a warning, or a notice, with ``syslog(3)``. If no syslog daemon is running, the message is lost without an error."""
    import syslog  # few need it

    syslog.openlog("spooltop", syslog.LOG_PID, syslog.LOG_USER)
    syslog.syslog(syslog.LOG_NOTICE if notice else syslog.LOG_WARNING, words)
    syslog.closelog()


# Default conditions of each action, for selections that leave them out. They are the same for every kind of spool.

PURGE_AGE = 3600.0
"""Minimum age in the box, in seconds, for a purge by condition, unless an age or ALL is given."""

_AGE_TERM = r"(?:^|\s)!?age:"


def with_defaults(action: Action, selection: Selection) -> Selection:
    """Returns the selection with the defaults of ``action`` filled in.

    Requeue acts on claims. Purge requires a box or names. It skips messages that have been in their box for less than
    ``PURGE_AGE``, unless the messages are named, an age is given or everything is selected. Emptying does the same in the trash.
    Raises ``UsageError`` for a purge without a box.
    """
    if action is Action.REQUEUE and selection.box is None and selection.keys is None:
        return selection.replace(box=Box.CUR)
    if action is Action.EMPTY and selection.box is None:
        selection = selection.replace(box=Box.TRASH)
    if action in (Action.PURGE, Action.EMPTY) and not selection.named:
        if selection.box is None:
            raise UsageError("purge: which box?", "name it with --box tmp, new, cur, held or rejected, or name ids")
        if selection.older_than is None and not selection.everything and not re.search(_AGE_TERM, selection.filter):
            return selection.replace(older_than=PURGE_AGE)
    return selection


# Confirmation required for a plan: the greater the danger, the more a person has to type.

LARGE_FROM = 10
NUMBER_FROM = 100


def confirm_for(count: int, *, uncertain: bool) -> Confirm:
    """Returns the confirmation required for ``count`` items. ``uncertain``: at least one item belongs to a holder or writer that
    is not known to be gone.

    >>> confirm_for(9, uncertain=False), confirm_for(10, uncertain=False), confirm_for(1, uncertain=True)
    (<Confirm.SMALL: 'y'>, <Confirm.LARGE: 'Y'>, <Confirm.NUMBER: 'number'>)
    """
    if count <= 0:
        return Confirm.NOTHING
    if uncertain or count >= NUMBER_FROM:
        return Confirm.NUMBER
    return Confirm.LARGE if count >= LARGE_FROM else Confirm.SMALL


def accepts(confirm: Confirm, count: int, typed: str) -> bool:
    """True if ``typed`` is the confirmation of ``count`` items that ``confirm`` requires: ``y`` (``Y`` also works), ``Y``, or the
    number."""
    words = {Confirm.SMALL: ("y", "Y"), Confirm.LARGE: ("Y",), Confirm.NUMBER: (str(count),)}
    return typed.strip() in words.get(confirm, ())


def confirm_words(confirm: Confirm, count: int) -> str:
    """Returns the words for what is to be typed."""
    return {Confirm.LARGE: "Shift-Y", Confirm.NUMBER: f"the number {count}"}.get(confirm, "y")


# Shell command of a plan: the same action, to be copied, kept, or run in another directory.

MOST_IDS = 200
"""Maximum number of ids on the command line, whose length is limited; more ids are read from stdin (``-``)."""

MOST_LINES = 1_000
"""Maximum number of ids in a here-document: terminals truncate longer clipboards."""
_END = "END OF IDS"
"""Delimiter of a here-document."""
_INJECT_FLAGS = ("count", "size", "text", "file", "source")


def id_word(name: str) -> str:
    r"""Writes an id as a word that every command reads back, never mistaken for a flag, for ``-`` or for ``ALL``.

    >>> id_word("--force"), id_word("ALL"), id_word("a b")
    ('\\x2d-force', '\\x41LL', 'a b')
    """
    shown = escape(name)
    return f"\\x{ord(shown[0]):02x}{shown[1:]}" if shown.startswith("-") or shown == "ALL" else shown


def id_words(items: Sequence[Item]) -> list[str]:
    """Writes the ids of items; one that occurs twice is replaced by the name."""
    seen = Counter(item.id for item in items)
    return [id_word(item.id if seen[item.id] == 1 else item.name) for item in items]


def _flags(options: JsonObject) -> Iterator[str]:
    """Writes options as flags, without those that are None. What is not printable is escaped; what a command would take for
    another flag is one word with its own."""
    for name, value in options.items():
        if value is not None:
            word = str(value) if str(value).isprintable() else escape(str(value))
            yield from (f"--{name}={word}",) if word.startswith("-") else (f"--{name}", word)


def shell_lines(plan: Plan) -> list[str]:
    """Lines of the command of ``plan`` for pasting into a shell, not escaped for a screen. Ids for stdin follow in a
    here-document; if there are too many for a clipboard, the command repeats the selection instead."""
    text = shlex.join(plan.command)
    if plan.command[-1:] != ("-",):
        return [text]
    if plan.count > MOST_LINES and not plan.selection.named:
        chosen = plan.selection.replace(everything=False).words()
        return [f"{shlex.join(('spooltop', 'ls', plan.command[2], *chosen, '--json'))} | {text}"]
    lines = id_words(plan.items)
    return [f"{text} <<'{_END}'", *(f"\\x{ord(_END[0]):02x}{_END[1:]}" if line == _END else line for line in lines), _END]


# Words for what a plan will do: the first sentence before a plan is confirmed, for every kind of queue.

_WHAT = {
    Action.REQUEUE: ("moves back to new with the same id; claimed next.",
                     "move back to new with the same ids, oldest first; claimed next."),
    Action.PURGE: ("moves to the trash.", "move to the trash."),
    Action.HOLD: ("is set aside into held, where no consumer takes it, until released.",
                  "are set aside into held, where no consumer takes them, until released."),
    Action.RELEASE: ("moves back to new with the same id.", "move back to new with the same ids."),
    Action.RESTORE: ("moves back to the box it came from; a claim moves to new.",
                     "move back to the boxes they came from; claims move to new."),
    Action.EMPTY: ("is deleted permanently.", "are deleted permanently."),
}  # fmt: skip

_WHATEVER = {
    Action.INJECT: "Test messages are put into new; running consumers claim them.",
    Action.UNDO: "Each message moves back to the box it was in, unless it was changed since.",
    Action.SET_CURSOR: "The value is set in its own section; nothing else in the file changes.",
    Action.UNLOCK: "Locks of exited holders are removed; undo restores them where the path is free.",
    Action.PAUSE: "Pauses the spool: consumers of spooltop claim nothing until it is resumed. Claims that are held end as usual; "
    "messages are still put.",
    Action.RESUME: "Resumes the spool: consumers claim again, the oldest message first.",
}

_UNDONE = {
    Action.INJECT: "Each waiting test message moves to the trash.",
    Action.SET_CURSOR: "The earlier value is set again, unless it was written since.",
    Action.UNLOCK: "The lock file is restored, if its path is free.",
    Action.PAUSE: "The spool is resumed, unless it was resumed or paused again since.",
    Action.RESUME: "The spool is paused again, with who paused it, when and why.",
}


def poison_words(plan: Plan) -> str:
    """``hold 1, requeue 3``: messages whose consumers died too often are held."""
    left = plan.count - plan.poison
    return f"hold {plan.poison:,}, requeue {left:,}" if left else f"hold {plan.poison:,}"


def holds_poison(plan: Plan) -> bool:
    return bool(plan.options.get("hold_poison")) and plan.poison > 0


def effect_of(plan: Plan) -> str:
    """Returns the effect on the messages, in a sentence: the operator's own, else the one that its boxes have anywhere."""
    if plan.effect:
        return plan.effect
    if plan.action is Action.UNDO and plan.undone in _UNDONE:
        return _UNDONE[plan.undone]
    if plan.action in _WHATEVER:
        return _WHATEVER[plan.action]
    if holds_poison(plan):
        held = "1 is" if plan.poison == 1 else f"{plan.poison:,} are"
        left = plan.count - plan.poison
        goes = f"; the other {left:,} {'moves' if left == 1 else 'move'} back to new, claimed next" if left else ""
        it = "it" if plan.poison == 1 else "them"
        return f"{held} set aside into held, where no consumer takes {it}, until released{goes}."
    one, many = _WHAT[Action.EMPTY if plan.options.get("now") else plan.action]
    return f"It {one}" if plan.count == 1 else f"They {many}"


# Outcomes of the items so far, as the operator gave them: a result of each is made when it is asked for.

class ResultList(Sequence[ItemResult]):
    """Results of ``items``, in their order: the ``others`` by place, and all else is done as planned."""

    def __init__(self, items: Sequence[Item]) -> None:
        self.others: dict[int, ItemResult] = {}
        self._items = items
        self._tried = 0

    def add(self, batch: Results) -> None:
        self.others |= {place: result for place, result in enumerate(batch, self._tried) if result is not None}
        self._tried += len(batch)

    def __len__(self) -> int:
        return self._tried

    @overload
    def __getitem__(self, index: int) -> ItemResult: ...

    @overload
    def __getitem__(self, index: slice) -> list[ItemResult]: ...

    def __getitem__(self, index: int | slice) -> ItemResult | list[ItemResult]:
        places = range(len(self))[index]
        if not isinstance(places, int):
            return [self[at] for at in places]
        return self.others.get(places) or done(self._items[places])


# Note about the consumers that would take requeued or released messages; the last line of such a plan.

RECENT = 60.0
"""Seconds after a claim during which a consumer of which there is no other sign may still be running."""
_NAMED_AT_MOST = 3


def at_work(observation: Observation, now: float) -> str:
    """Builds the note: ``At work now: 1 consumer (5201), last claim 4s ago.`` ``now`` is in epoch seconds. Consumers that are
    visible only by their claims count while they hold one."""
    claimed = observation.last_claim_at
    last = "" if claimed is None else f", last claim {age(max(0.0, now - claimed))} ago"
    living = [row.owner for row in observation.claims if row.verdict is Verdict.ALIVE and row.owner is not None]
    processes = list(dict.fromkeys((one.host, one.pid or one.name) for one in living if one.pid or one.name))
    count = max(observation.consumers or 0, len(processes))
    if count:
        pids = ", ".join(str(pid) for _, pid in processes)
        named = f" ({escape(pids)})" if processes and len(processes) == count <= _NAMED_AT_MOST else ""
        return f"At work now: {count:,} {'consumer' if count == 1 else 'consumers'}{named}{last or ', last claim not known'}."
    if claimed is not None and now - claimed <= RECENT:
        return f"Nobody is seen at work now{last}."
    return f"Nobody is at work now{last}: they will wait in new."


_UNPROVEN = (Verdict.UNKNOWN, Verdict.ALIVE, Verdict.WRITING)
_ASKS_WHEN_FORCED = (Action.RESTORE, Action.SET_CURSOR)
"""Actions whose items have no holder: force does what is likely a slip."""

_MOST_REASONS = 5
_PUTS_BACK = (Action.REQUEUE, Action.RELEASE)


class Operations(Struct, eq=False):
    """Plans and applies changes to a target. ``target`` is its name as it is shown, ``flags`` are the options that a command
    needs to open it (``--as spool``); ``clock`` returns epoch seconds. ``copies`` receives what the journal says of
    each batch, without its items (syslog lines are limited in length). ``at_work`` returns a sentence about the
    consumers that would take messages moved to ``new``. ``retention``: seconds after which the content of the trash
    has expired, 0: never. ``redactor`` hides values in commands, records and audit trails."""

    operator: Operator
    target: str
    clock: Clock = time.time
    new_operation: Callable[[], str] = lambda: os.urandom(5).hex()
    flags: tuple[str, ...] = ()
    syslog: Callable[[str], None] = to_syslog
    copies: Callable[[str], None] | None = None
    at_work: Callable[[], str] | None = None
    retention: float = 0.0
    redactor: Redactor = field(default_factory=Redactor)
    _performed: set[str] = set()
    _path: str = ""

    def __post_init__(self) -> None:
        self._path = full_name(self.target)  # for commands, which may be typed in any directory

    __repr__ = object.__repr__  # its parts know passwords

    def plan(
        self, action: Action, selection: Selection, force: bool = False, options: JsonObject | None = None,
        progress: Progress | None = None,
    ) -> Plan:  # fmt: skip
        """Pins the items of ``selection`` and changes nothing. Options: undo ``undoes`` (the id of an operation or its
        beginning); inject ``count``, ``text`` (see ``model.vocabulary``) or ``file`` or ``size`` (bytes), ``source``, ``canary``;
        requeue ``hold_poison`` (holds messages at which so many consumers died that they may be the cause, and requeues the
        others); pause ``reason``; purge ``now`` (deletes without the trash); all ``rate`` (items per second).

        ``progress`` is told how far it has come, and the first items where there are many; it is asked every few hundred messages
        if it is to stop. Raises ``Refused`` if the action is not available here, ``UsageError`` if the selection or the options
        are invalid, ``Stopped``.
        """
        progress = progress or Progress()
        progress.check()
        self._allowed(action)
        chosen: dict[str, Json] = dict(options or {})
        if action is Action.INJECT:
            chosen = with_file(chosen)
            count = chosen.setdefault("count", 1)
            if isinstance(count, bool) or not isinstance(count, int) or count < 1:
                raise UsageError(f"inject: invalid count {count!r}", "give --count 1 or more")
        undone: Action | None = None
        if action is Action.UNDO:
            chosen["undoes"], undone = self._which(str(chosen.get("undoes") or ""), progress)
        request = Request(action, with_defaults(action, selection), force, chosen, self.clock(), progress)
        found = self.operator.candidates(request)
        progress.check()
        if self.at_work is not None and action in _PUTS_BACK and found.items:
            found = found.replace(notes=(*found.notes, self.at_work()))
        if self.retention and action is Action.PURGE and found.items and not chosen.get("now"):
            kept = f"The trash keeps messages for {duration(self.retention)}, then offers to delete them."
            found = found.replace(notes=(*found.notes, kept))
        plan = Plan(
            **asdict(found), operation=self.new_operation(), action=action, target=self.target, made_at=request.at,
            selection=request.selection, force=force, command=self._command(action, request.selection, found.items, chosen),
            options=chosen, undone=undone, warnings=Counter(item.warning for item in found.items if item.warning),
        )  # fmt: skip
        # An undo hands nothing to anybody: what was claimed becomes the claim of the same holder again.
        unproven = 0 if action is Action.UNDO else sum(item.verdict in _UNPROVEN for item in found.items)
        uncertain = plan.deletes or unproven > 0 or (force and action in _ASKS_WHEN_FORCED)
        return plan.replace(confirm=confirm_for(plan.count, uncertain=uncertain), unproven=unproven)

    def with_rate(self, plan: Plan, rate: float | None) -> Plan:
        """Returns the plan with a limit of ``rate`` items per second; None: no limit."""
        options = {name: value for name, value in plan.options.items() if name != "rate"}
        if rate is not None:
            options["rate"] = rate
        return plan.replace(options=options, command=self._command(plan.action, plan.selection, plan.items, options))

    def _command(
        self, action: Action, selection: Selection, items: Sequence[Item], options: JsonObject
    ) -> tuple[str, ...]:
        """Words of the command, with the flags that open the target, and the ids of ``items``; an id that occurs twice is
        replaced by the name. A text to inject that is not printable is escaped, as it is on the screen. What is pasted asks
        first: there is neither ``--yes`` nor ``--force`` in it."""
        options = self._shown(options)
        rate = options.get("rate")
        slowly = ["--rate", f"{rate:.12g}"] if isinstance(rate, (int, float)) else []
        name = {Action.EMPTY: "purge", Action.SET_CURSOR: "cursors"}.get(action, str(action))
        words = ["spooltop", name, self._path, *self.flags]
        if action is Action.UNDO:
            return (*words, str(options.get("undoes", "")), *slowly)
        if action is Action.SET_CURSOR:
            # As JSON, independent of the later content of the section, so that it means the same whenever it is pasted.
            source = escape(str(options.get("source", ""))).replace("=", "\\x3d")
            written = json.dumps(options.get("value"), ensure_ascii=True)
            file = options.get("file") if not items or has_scheme(items[0].name) else items[0].name  # a server has no files
            named = ["--file", escape(str(file))] if file is not None else []
            return (*words, "--set", f"{source}={written}", "--type", "json", *named)
        if action is Action.UNLOCK:
            return (*words, *slowly, *map(id_word, dict.fromkeys(str(item.row.key) for item in items)))
        if action in WHOLE:
            return (*words, *_flags({"reason": options.get("reason") or None}))
        if action is Action.INJECT:
            text = options.get("text") if options.get("file") is None else None  # else it is that of the file
            flags = _flags({name: options.get(name) for name in _INJECT_FLAGS} | {"text": text})
            return (*words, *flags, *slowly, *(["--canary"] if options.get("canary") else []))
        boxes = {item.box for item in items} or ({selection.box} if selection.box else set())
        box = boxes.pop() if len(boxes) == 1 else None
        if box is not None and not (action is Action.REQUEUE and box is Box.CUR):
            words += ["--box", str(box)]
        if action is Action.REQUEUE and box is Box.NEW:
            options = {**options, "copy": True}  # a message that waits can only be put again
        words += [f"--{option.replace('_', '-')}" for option in ("now", "hold_poison", "copy") if options.get(option)]
        words += slowly
        if len(items) > MOST_IDS:
            return (*words, "-")
        return (*words, *id_words(items))

    def apply(
        self,
        plan: Plan,
        on_progress: Callable[[int], None] | None = None,
        stop: Stop | None = None,
    ) -> Result:
        """Applies the plan. Each item is re-checked just before it is changed, however old the plan is.

        Raises ``Refused`` and ``AuditFailed`` before anything is changed. A later error ends the operation and is reported in
        ``Result.notes``.
        """
        self._allowed(plan.action)
        if plan.operation in self._performed:
            raise Refused(f"operation {plan.operation} was performed already", "make a new plan", path=self.target)
        self._performed.add(plan.operation)
        results = ResultList(plan.items)
        stopped, ended = False, "stopped"
        notes: list[str] = []
        batches = self.operator.perform(plan, stop or (lambda: False))
        try:
            shown = self._shown(plan.options).items()
            options = {name: escape(one[:200]) if isinstance(one, str) else one for name, one in shown}
            self._copy(plan, "before", options=options)
            for batch in batches:
                results.add(batch)
                self._copy(plan, "after", batch, tried=len(results))
                if plan.works_when_full:
                    self._warn(plan, {one.reason for one in batch if one is not None and one.outcome is Outcome.DONE}, notes)
                if on_progress is not None:
                    on_progress(len(results))
        except SpooltopError as error:
            ended = str(error)
            if not results:
                raise
            stopped = True
            notes.append(f"ended early: {error}")
        finally:
            try:
                batches.close()
            except SpooltopError as error:
                notes.append(str(error))  # it must not hide what ended the operation
            if len(results) < plan.count:
                self._copy(plan, "after", tried=len(results), ended=escape(ended))
        if plan.missing:
            why = "not found when the plan was made"
            results.add([ItemResult(missing, missing, Outcome.SKIPPED, why) for missing in plan.missing])
        reasons = Counter(one.reason for one in results.others.values() if one.outcome is Outcome.DONE and one.reason)
        if not plan.works_when_full:
            notes += [f"{many} of those done: {reason}" for reason, many in reasons.most_common(_MOST_REASONS)]
        untried = max(0, plan.count - (len(results) - len(plan.missing)))
        result = Result(
            plan.operation, plan.action, plan.target, self.clock(), results, stopped or untried > 0, untried, notes=tuple(notes)
        )
        in_no_journal = plan.works_when_full and reasons
        if plan.deletes or plan.has_no_undo or in_no_journal or not result.count(Outcome.DONE):
            return result
        return result.replace(undo=("spooltop", "undo", self._path, *self.flags, plan.operation))

    def records(
        self, stop: Stop | None = None, *, begins: str = "", most: int | None = None
    ) -> list[OperationRecord]:
        """Returns the operations on this target whose id ``begins`` so, newest first, ``most`` of them. Raises ``Stopped`` if
        ``stop`` returns True."""
        return self.operator.operations(Progress(stop), begins=begins, most=most)

    def audited(self, operation: str) -> AuditTrail:
        """Returns the audit trail of ``operation``, a complete id. Raises ``Unreadable``."""
        trail = self.operator.trail(operation)
        if not self.redactor:
            return trail
        text = self.redactor.text  # also in lines that were written before the setting was made
        lines = []
        for line in trail.lines:
            results = tuple(one.replace(reason=text(one.reason)) for one in line.results)
            lines.append(line.replace(names=tuple(map(text, line.names)), results=results))
        return trail.replace(lines=tuple(lines))

    def close(self) -> None:
        self.operator.close()

    def _copy(self, plan: Plan, event: str, batch: Results = (), **more: Json) -> None:
        """Sends a copy of what the journal says of a batch, without its items, and with ``more`` members."""
        if self.copies is None:
            return
        head: dict[str, Json] = {
            "schema": 1, "time": self.clock(), "event": event, "operation": plan.operation, "action": str(plan.action),
            "target": escape(full_name(plan.target)), "force": plan.force, **to_builtins(Actor.here()), "count": plan.count,
        }  # fmt: skip
        counts = Counter(Outcome.DONE if one is None else one.outcome for one in batch)
        outcomes = {str(outcome): counts[outcome] for outcome in Outcome} if event == "after" else {}
        self.copies(json.dumps({**head, **more, **outcomes}, separators=(",", ":")))

    def _warn(self, plan: Plan, reasons: set[str], notes: list[str]) -> None:
        """Notes what was done without a line in the journal, also in the system log."""
        for words in reasons.difference(notes, ("",)):
            notes.append(words)
            self.syslog(f"uid {os.geteuid()}: {plan.action} {plan.operation} of {plan.count} in {escape(plan.target)}: {words}")

    def _shown(self, options: JsonObject) -> JsonObject:
        """Returns ``options`` as they may be shown and logged."""
        source = options.get("source")
        hidden = dict(options)
        if isinstance(text := options.get("text"), str):
            hidden["text"] = self.redactor.text(text)
        for name in {"value", "highest"} & set(options):
            hidden[name] = self.redactor.section(source if isinstance(source, str) else "", options[name])
        return hidden

    def _allowed(self, action: Action) -> None:
        reason = self.operator.why_not(action)
        if reason is not None:
            raise Refused(f"{action}: {reason}", path=self.target)

    def _which(self, asked: str, progress: Progress) -> tuple[str, Action]:
        """Returns the only operation whose id begins with ``asked``, and its action."""
        if not asked:
            raise UsageError("undo: which operation?", "spooltop ops lists them")
        found = {record.operation: record.action for record in self.operator.operations(progress, begins=asked)}
        if asked in found:
            return asked, found[asked]
        if len(found) == 1:
            return next(iter(found.items()))
        if found:
            raise UsageError(f"undo: {escape(asked)} begins {len(found)} operations", "give more of the id")
        raise NoSuchOperation(f"undo: no operation {escape(asked)} in the journal", "spooltop ops lists them")
