"""The screens of a plan and of its result. The items of a plan are pinned, listed and confirmed, then applied; keys typed before
it was seen do not count. The result stays until it is closed, and says what happened since: where the messages that were moved
are now, what the cursor is now."""

from __future__ import annotations

import shlex
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import islice

from textual.app import ComposeResult
from textual.events import Key
from textual.message import Message

from spooltop.cursors.draw import cursor_since
from spooltop.model import (
    Confirm,
    Item,
    ItemResult,
    Outcome,
    Plan,
    Refusal,
    Result,
    Selection,
    SpooltopError,
    TrackedMessage,
    UsageError,
)
from spooltop.model.vocabulary import (
    ASIDE,
    PAST,
    WHOLE,
    Action,
    Box,
    JsonObject,
    Row,
    Verdict,
    age,
    duration,
    escape,
    parse_rate,
    printable,
    rate_limit,
    size,
)
from spooltop.operate.operations import effect_of, holds_poison, poison_words, shell_lines

from ..commands import View, command_for, plan_words
from ..draw.elements import (
    BLANK,
    Line,
    Lines,
    Span,
    Style,
    clip,
    clip_left,
    dim,
    headed,
    inner_width,
    join,
    labelled,
    line_width,
    note_lines,
    pad,
    pad_left,
    panel_frame,
    paragraph,
    safe,
    shown,
    visible,
    when,
)
from ..draw.lists import owner_text
from ..messages import Found, MessagesTracked, SnapshotTaken
from ..threads import deliver, now_and_then
from .base import BACKSPACES, CONFIRMING, LEAVING, Facts, LineEdit, Panel, ScrollingScreen, Session, T, footer_line
from .follow import FollowScreen

_MOST_REFUSALS = 4
_COMMAND_LINES = 3
_EFFECT = 22


_NOUNS: Mapping[Box | None, str] = {Box.CUR: "claim", Box.TMP: "file"}
"""Words for an item in one of these boxes; in others it is a message."""


def plan_title(plan: Plan) -> str:
    """``Requeue 2 of 3 claims``."""
    rows = [item.row for item in plan.items[:1]] or [one.row for one in plan.refused[:1]]  # the first one: there may be a million
    box = rows[0].box if rows else plan.selection.box
    asked = plan.count + len(plan.refused)
    of = f" of {asked:,}" if plan.refused else ""
    by_force = ", by force" if plan.force else ""
    if plan.action is Action.SET_CURSOR:
        return f"Set the cursor of {safe(str(plan.options.get('source', '')))}{by_force}"
    if plan.undone is not None:
        return _undo_title(plan, asked, rows)
    if plan.action in WHOLE:
        return f"{plan.action.capitalize()} the spool"
    if plan.action is Action.UNLOCK:
        return f"Remove {plan.count:,}{of} stale {'lock' if asked == 1 else 'locks'}{by_force}"
    noun = f"{_NOUNS.get(box, 'message')}{'' if asked == 1 else 's'}{by_force}"
    if holds_poison(plan):
        return f"{poison_words(plan).capitalize()} of {asked:,} {noun}"
    verb = "Delete" if plan.deletes else plan.action.capitalize()
    return f"{verb} {plan.count:,}{of} {noun}"


def _undo_title(plan: Plan, asked: int, rows: Sequence[Row]) -> str:
    """``Undo purge of 2 messages``, ``Undo setting cursor imessage``."""
    if plan.undone is Action.SET_CURSOR:
        return f"Undo setting cursor {safe(rows[0].id)}" if rows else "Undo setting a cursor"
    if plan.undone in WHOLE:
        return f"Undo {plan.undone} of the spool"
    what, noun = ("removing", "lock") if plan.undone is Action.UNLOCK else (str(plan.undone), "message")
    nouns = noun if asked == 1 else f"{noun}s"
    return f"Undo {what}: {plan.count:,} of {asked:,} {nouns}" if plan.refused else f"Undo {what} of {plan.count:,} {nouns}"


def _item_line(item: Item, inner: int, now: float, with_owner: bool, undoes: bool) -> Line:
    row = item.row
    in_cur = row.box is Box.CUR and not undoes
    old = row.held(now) if in_cur else age(row.age(now))
    text = f"{pad_left(old, 5)}  {pad_left(row.tries, 5)}  "
    if with_owner:
        text += pad(clip(owner_text(row.owner), 17), 18)
    dead = row.verdict is Verdict.DEAD
    verdict = "" if row.verdict is None else row.verdict.upper() if dead else row.verdict
    if undoes:
        fact = Style.BAD(pad(f"{shown(row.evidence)}{verdict and f', {verdict}'}", _EFFECT), dead)
    elif in_cur or row.box is Box.TMP:
        fact = Style.BAD(pad(verdict or "—", 11), dead)
    else:
        fact = Span(f"{size(row.size):>7}  ")
    used = 2 + len(text) + len(fact.text)
    sign = Style.WARN("! " if item.warning else "  ")
    return join(sign, text, fact, clip_left(safe(row.id), max(4, inner - used)))


def _warnings(plan: Plan, inner: int) -> Lines:
    lines = []
    for warning, n in list(plan.warnings.items())[:_MOST_REFUSALS]:
        times = f"{n:,}: " if n > 1 else ""
        lines += labelled(Style.WARN("! "), inner, f"{times}{shown(warning)}")
    return lines


def _refusals(plan: Plan, inner: int) -> Lines:
    """The refused items, grouped by reason, with a name from each group."""
    groups: dict[str, list[Refusal]] = {}
    for refusal in plan.refused:
        groups.setdefault(refusal.reason, []).append(refusal)
    lines: Lines = []
    for reason, refused in list(groups.items())[:_MOST_REFUSALS]:
        holds = ", holds" if refused[0].row.verdict is Verdict.ALIVE else ""
        name = safe(refused[0].row.id)
        more = f" and {len(refused) - 1:,} more" if len(refused) > 1 else ""
        lines += headed(Style.WARN(f"Refused {len(refused):,}: "), f"{shown(reason)}{holds}", inner)
        lines.append(dim(f"   {clip_left(name, max(4, inner - 3 - len(more)))}{more}"))
    if len(groups) > _MOST_REFUSALS:
        lines.append(join(f"Refused for {len(groups) - _MOST_REFUSALS} more reasons"))
    forceable = [refusal.row for refusal in plan.refused if refusal.forceable]
    if forceable and not plan.force:
        lines.append(join("   ", _how_else(forceable), Style.KEY("f"), f" takes {_from_whom(forceable)}"))
    return lines


def _how_else(rows: Sequence[Row]) -> str:
    """``Once 5200 exits, it is DEAD; `` where running processes are the only obstacle."""
    if any(row.verdict is not Verdict.ALIVE for row in rows):
        return ""
    # Of a process that is not visible here, the number may be another's by now; whose user is known was seen.
    holders = {(row.owner.host, row.owner.pid, row.owner.user) if row.owner is not None else (None, None, None) for row in rows}
    pids = [pid if user is not None else None for _, pid, user in holders]
    it = "it is" if len(rows) == 1 else "they are"
    who = f"{pids[0]}" if len(pids) == 1 and pids[0] is not None else "its holder" if len(pids) == 1 else "the holders"
    return f"Once {who} {'exits' if len(pids) == 1 else 'exit'}, {it} DEAD; "


def _from_whom(rows: Sequence[Row]) -> str:
    if all(row.box is Box.DELIVERED or row.verdict is None for row in rows):
        return f"{'it' if len(rows) == 1 else f'{len(rows):,}'} all the same"
    living = all(row.verdict is Verdict.ALIVE for row in rows)
    owner = "running owner" if living else "running or unknown owner"
    return f"it from a {owner}" if len(rows) == 1 else f"{len(rows):,} from {owner}s"


# The result.

FOLLOWS = frozenset({Action.REQUEUE, Action.RELEASE, Action.RESTORE, Action.INJECT, Action.UNDO})
"""Actions whose messages move on by themselves."""

FOLLOWED_AT_MOST = 1_000
"""Maximum number of messages that are followed."""




def since_then(result: Result, tracked: MessagesTracked | None, ids: Sequence[str]) -> tuple[str, ...]:
    """Says who claimed the messages, what happened to them, and how many still wait. Empty before the first look after the
    operation. ``ids`` are those that are followed."""
    if tracked is None or tracked.taken_at < result.finished_at or not ids:
        return ()
    found = [tracked.found[id] for id in ids if id in tracked.found]
    end, now = result.finished_at, tracked.taken_at
    lines = _taken([one for one in found if one.claimed_at is not None], end, now)
    free = [one for one in found if one.claimed_at is None]
    if gone := sum(one.gone_at is not None for one in free):
        lines.append(f"{gone:,} taken and gone; consumer not seen")
    if in_new := [one for one in free if one.box is Box.NEW]:
        places = sorted(one.place for one in in_new if one.place is not None)
        of = max((one.of for one in in_new if one.of is not None), default=None)
        words = f"{len(in_new):,} wait{'s' if len(in_new) == 1 else ''} in new"
        if places and of is not None:
            span = f"{places[0]:,}" if places[0] == places[-1] else f"{places[0]:,} to {places[-1]:,}"
            words += f", place {span} of {max(of, places[-1]):,}"
        lines.append(f"{words}, nobody took {'it' if len(in_new) == 1 else 'them'} for {age(max(0.0, now - end))}")
    for box in Box:
        if box is not Box.NEW and (here := sum(one.box is box for one in free)):
            lines.append(f"{here:,} {'set aside in' if box in ASIDE else 'in'} {box}")
    if unseen := sum(one.box is None and one.gone_at is None for one in free):
        lines.append(f"{unseen:,} on the way, not seen in any box yet")
    if more := result.count(Outcome.DONE) - len(found):
        lines.append(f"first {len(found):,} only; {more:,} more are not followed")
    return tuple(lines)


def waiting(result: Result, tracked: MessagesTracked | None, ids: Sequence[str]) -> int | None:
    """The number of messages that still wait to be claimed: those that an undo can move. None where it is not known or the
    messages do not wait. ``ids`` as above."""
    if tracked is None or not ids or result.action is Action.UNDO or len(tracked.found) < result.count(Outcome.DONE):
        return None
    return sum(one.box is Box.NEW for one in tracked.found.values())


def _taken(claimed: Sequence[TrackedMessage], end: float, now: float) -> list[str]:
    """Returns a line for each claimant and each outcome of its messages."""
    groups: dict[tuple[int | None, str], list[TrackedMessage]] = {}
    for one in claimed:
        now_is = "gone" if one.gone_at is not None else str(one.box or "")
        if one.verdict in (Verdict.DEAD, Verdict.UNKNOWN):
            now_is = str(one.verdict)
        groups.setdefault((one.pid, now_is), []).append(one)
    lines = []
    for (pid, now_is), ones in sorted(groups.items(), key=lambda group: (group[0][0] or 0, group[0][1])):
        who = f"by {pid}" if pid is not None else "by a process that is not visible"
        words = f"{len(ones):,} claimed {who} after {_times((one.claimed_at or end) - end for one in ones)}"
        match now_is:
            case "gone":
                words += f", done after {_times((one.gone_at or end) - end for one in ones)}"
            case Verdict.DEAD:
                words += ", now DEAD and still holding " + ("it" if len(ones) == 1 else "them")
            case Verdict.UNKNOWN:
                words += "; whether it is running is not known here"
            case Box.CUR:
                words += f", being processed for {age(max(now - (one.claimed_at or now) for one in ones))}"
            case Box.NEW:
                words += ", returned, waits in new again"
            case "":
                words += ", left its claim just now" if len(ones) == 1 else ", left their claims just now"
            case _:
                words += f", then set aside in {now_is}"
        lines.append(words)
    return lines


def _times(durations: Iterable[float]) -> str:
    """The shortest and the longest of some durations, as one where they are the same."""
    times = sorted(max(0.0, one) for one in durations)
    least, longest = duration(times[0]), duration(times[-1])
    return least if least == longest else f"{least} to {longest}"


def _not_done(result: Result, inner: int) -> list[Line | int]:
    """The skipped and failed items by place, grouped by reason; failures first."""
    lines: list[Line | int] = []
    for (outcome, reason), places in sorted(result.not_done.items(), key=lambda group: group[0][0] is not Outcome.FAILED):
        head = (Style.BAD if outcome is Outcome.FAILED else Style.WARN)(f"{outcome.value} {len(places):,}: ")
        lines += headed(head, shown(reason) or "no reason given", inner)
        lines += places
    return lines


class ResultScreen(ScrollingScreen[bool]):
    """Returns True where it is to be undone. ``since``: when the change began, epoch seconds; claims after it count. ``cursor``:
    the cursor that it set."""

    VIEW = View.RESULT
    session: Session
    tracked: MessagesTracked | None = None

    def __init__(self, session: Session, result: Result, since: float, cursor: Item | None) -> None:
        super().__init__(session)
        self.result = result
        self.since = since
        self.cursor = cursor
        self.ids: tuple[str, ...] = ()
        """The ids of the first items that were done, where their messages move on."""
        if cursor is None and result.action in FOLLOWS and result.count(Outcome.DONE):
            self.ids = tuple(islice((item.id for item in result.items if item.outcome is Outcome.DONE), FOLLOWED_AT_MOST))

    def on_mount(self) -> None:
        if self.ids:
            self.session.snapshot_thread.follow(self.ids, self.since)

    def on_unmount(self) -> None:
        self.session.snapshot_thread.follow(())

    def facts(self) -> Facts:
        return {"undoable": "" if self.result.undo else "nothing can be undone", "tracked": len(self.ids)}

    def take(self, found: Found) -> None:
        """Takes the places of the messages at a new look."""
        if isinstance(found, MessagesTracked):
            self.tracked = found
            self.paint()
        elif self.cursor is not None and isinstance(found, SnapshotTaken):
            self.paint()

    def draw(self, width: int, height: int) -> Lines:
        """How many items were done, skipped and failed, the reasons and names of the last two, and what happened since."""
        result, inner = self.result, inner_width(width)
        done, skipped, failed = map(result.count, (Outcome.DONE, Outcome.SKIPPED, Outcome.FAILED))
        stopped = f" · stopped, {result.untried:,} not attempted" if result.stopped or result.untried else ""
        failures = Style.BAD(f"failed {failed:,}", failed)
        head = join(f"done {done:,} · skipped {skipped:,} · ", failures, stopped)
        middle: list[Line | int] = []  # names are looked up and drawn when they are shown: there may be a million
        since = since_then(result, self.tracked, self.ids)
        if self.cursor is not None:
            since = cursor_since(result, self.cursor, self.session.snapshot)
        for i, words in enumerate(since):
            middle += labelled(Style.DIM(" " * 12 if i else "since then  "), inner, shown(words))
        middle += [*_not_done(result, inner), *note_lines(result.notes, inner)]
        foot: Lines = [BLANK]
        keys: list[Span | str] = [Style.KEY("[Esc Close]")]
        if result.undo:
            foot.append(join(f"undo: {shown(shlex.join(result.undo))}"))
            left = waiting(result, self.tracked, self.ids)
            which = f" (the {left:,} that wait{'s' if left == 1 else ''})" if left else ""
            keys += ["   ", Style.KEY("z"), f" undo{which}"]
        foot.append(join(*keys, "   ", Style.KEY("c"), " copy as text"))
        room = max(1, height - 3 - len(foot))
        shown_lines = visible(len(middle), room, self.at, 0)
        seen = [self._line(middle[i], inner) for i in shown_lines]
        if hidden := len(middle) - shown_lines.stop:
            seen[-1] = dim(f"… {hidden + 1:,} more lines")
        many = "" if result.action in WHOLE else f" {done:,}"
        past = "Deleted" if result.action is Action.EMPTY else PAST[result.action].capitalize()
        title = f"{past}{many} · operation {shown(result.operation)}"
        return panel_frame(title, when(result.finished_at), [head, *seen, *foot], width)

    def _line(self, line: Line | int, inner: int) -> Line:
        """A line, or the name of the item at this place."""
        if not isinstance(line, int):
            return line
        return join(f"   {clip_left(safe(self.result.items[line].id), max(4, inner - 3))}")

    def do_follow(self) -> None:
        self.open_screen(FollowScreen(self.session, self.ids, self.since, keep=True, seen=self.tracked))

    def do_copy_result(self) -> None:
        lines = self.draw(200, len(self.result.items) + 50)
        self.copy_lines(lines, f"the result of {self.result.operation}, {self.result.count(Outcome.DONE):,} done")

    @property
    def listed(self) -> Sequence[ItemResult]:
        return self.result.items

    def text_of(self, one: ItemResult) -> str:
        return f"{escape(one.id)} {one.outcome} {one.reason}"


class PlanScreen(ScrollingScreen[Result | None]):
    """Opens at once and shows how far the plan is, and the first items of a large one; the plan then stays the same while the
    spool changes. Returns the result, None where it was left."""

    VIEW = View.PLAN
    PINNED = True
    session: Session
    plan: Plan | None = None
    force = False
    applying = False
    tried = 0
    began = 0.0
    planning = ""
    first: Sequence[Item] = ()
    """The items that are shown before there is a plan."""
    rate: LineEdit | None = None
    """The rate while it is typed."""
    strayed_at = 0.0
    """The time (of the event clock) of the last key that has no meaning here."""
    asked_at = 0.0
    """The time that ``early`` is judged by: that of a key or of painting."""

    def __init__(self, session: Session, action: Action, selection: Selection, options: JsonObject | None = None) -> None:
        super().__init__(session)
        self.action = action
        self.selection = selection
        self.options = dict(options or {})
        self.edit = LineEdit(limit=12, digits=True)
        self.stop = threading.Event()

    def body(self) -> ComposeResult:
        self.panel = Panel(self.session.options, "panel")
        self.panel.readable = lambda: not self.small
        yield self.panel

    def on_mount(self) -> None:
        self.make()

    def make(self) -> None:
        self._ask(partial(
            self.session.control.plan, self.action, self.selection, force=self.force, options=dict(self.options),
            on_progress=now_and_then(self, partial(setattr, self, "planning")),
            on_first=partial(deliver, self, partial(setattr, self, "first")),
            stop=self.unwanted(),  # otherwise the next plan would wait for this one
        ))  # fmt: skip

    def _ask(self, job: Callable[[], Plan]) -> None:
        """Replaces the plan by the one that ``job`` makes; the one shown before cannot be confirmed any more."""
        self.plan, self.edit.text, self.planning, self.first = None, "", "", ()
        self.ask(self.session.worker.submit, job, partial(setattr, self, "plan"))

    def _answered(self, take: Callable[[T], object], found: T | SpooltopError) -> None:
        self.panel.renew()
        super()._answered(take, found)

    def on_resize(self) -> None:
        if self.small:  # the plan cannot be read now: a key does not count
            self.panel.renew()

    def ignores(self, event: Key) -> bool:
        if event.key in LEAVING:
            return False
        seen_at = self.panel.painted_at if self.plan is not None else None
        if not self.applying and (seen_at is None or event.time < seen_at):
            self.refuse_early(event)
            return self.plan is not None or not self.first or not self._moves(event)
        self.asked_at = event.time
        if self.rate is None and event.is_printable and not self._means_something(event):
            self.strayed_at = event.time
            self._settle()
        return False

    def refuse_early(self, event: Key) -> None:
        if event.key in CONFIRMING:
            self.session.early = event.key
            self._tell_early()

    def _tell_early(self) -> None:
        """Says that a key came too early, once somebody sees the plan that it was meant for: not the one that was applied."""
        session = self.session
        if session.early and not self.began and self.plan is not None and self.panel.painted_at is not None:
            self.show_notice(f"{session.early} came before the plan was painted; press it again")
            session.early = ""

    def _moves(self, event: Key) -> bool:
        command, _ = command_for(event.key, self.context())
        return command is not None and command.group == "move"

    def _means_something(self, event: Key) -> bool:
        numbered = self.plan is not None and self.plan.confirm is Confirm.NUMBER
        return (numbered and event.character in tuple("0123456789")) or command_for(event.key, self.context())[0] is not None

    @property
    def early(self) -> bool:
        """True where it is too early to confirm: the plan was not shown long enough, or a word is being typed."""
        seen_at = self.panel.painted_at
        return seen_at is None or self.asked_at < max(seen_at, self.strayed_at) + self.session.moment

    def on_panel_painted(self) -> None:
        self._settle()
        self._tell_early()

    def _settle(self) -> None:
        """Shows how to confirm as soon as a key would."""
        self.asked_at = Message().time
        self.paint()
        if self.early and self.session.moment and self.panel.painted_at is not None:
            self.set_timer(self.session.moment, self._settle)

    def facts(self) -> Facts:
        return {"plan": self.plan, "applying": self.applying, "early": self.is_mounted and self.early}

    def typed(self, event: Key) -> bool:
        if self.rate is not None and event.key in BACKSPACES and not self.rate.text:
            return True  # a slip leaves neither the line nor, with the next key, the plan
        if super().typed(event):
            return True
        plan = self.plan
        if plan is None or self.applying or plan.confirm is not Confirm.NUMBER:
            return False
        if event.key in BACKSPACES and not self.edit.text:
            return False
        if event.key in BACKSPACES or (event.character or "") in tuple("0123456789"):
            self.edit.key(event.key, event.character)
            return True
        return False

    def _set_rate(self, text: str | None) -> None:
        plan, edit, self.rate = self.plan, self.rate, None
        try:
            rate = parse_rate(text.strip()) if text and text.strip() else None
        except UsageError as error:
            self.rate = self.typing = edit
            self.show_notice(str(error))
            return
        if text is not None and plan is not None and plan.rate != rate:
            self.options.pop("rate", None)
            if rate is not None:
                self.options["rate"] = rate
            # In the worker thread, because the command may list a million ids.
            self._ask(partial(self.session.control.with_rate, plan, rate))

    # Drawing

    def paint(self) -> None:
        if self.ready and (self.plan is None or self.failed):
            self.panel.show(self._without_plan(*self.window_size))
        else:
            super().paint()

    def draw(self, width: int, height: int) -> Lines:
        """The way to confirm is always at the bottom; the items are shortened first, shown from ``at`` on."""
        plan, inner = self.plan, inner_width(width)
        if plan is None:
            return []
        head = paragraph(safe(effect_of(plan)), inner) if plan.count else []
        # What has words is none of many; a note says them again, for who reads notes alone.
        listed = {f"{item.words}." for item in plan.items} if plan.items and plan.items[0].words else set[str]()
        notes = [note for note in plan.notes if note not in listed]
        tail = [*_warnings(plan, inner), *_refusals(plan, inner), *note_lines(notes, inner)]
        foot = self._foot(plan, inner)
        room = max(1, height - 2 - len(foot))
        table = self._table(plan.items, inner, max(2, room - len(head) - len(tail))) if plan.items else []
        middle = [*head, *table, *tail]
        if len(middle) > room:
            middle = [*middle[: room - 1], join(f"… {len(middle) - room + 1} more lines; a taller window shows them")]
        return panel_frame(plan_title(plan), f"as of {when(plan.made_at)}", [*middle, *foot], width)

    def _foot(self, plan: Plan, inner: int) -> Lines:
        lines = [BLANK]
        if plan.command and plan.count:
            ids = f", with its {plan.count:,} ids" if plan.command[-1] == "-" else ""
            without = ", without force" if plan.force else ""
            words = f"copy as command{ids}{without}: {shown(shlex.join(plan.command))}"
            lines += labelled(Style.KEY("c "), inner, words, most=_COMMAND_LINES)
        if self.rate is not None:
            asked = "rate limit: ", Style.STRONG(f"{shown(self.rate.text)}_"), dim("   50, 50/s, 1000/m; empty: no limit")
            return [*lines, join(*asked)]
        if plan.rate_text:
            lines.append(join(Style.KEY("s "), plan.rate_text))
        if self.applying:
            busy = "stopping…" if self.stop.is_set() else f"{self.tried:,} of {plan.count:,} done; Esc stops"
            return [*lines, join(Style.WARN("working: "), busy)]
        return [*lines, self._how_to_confirm(plan, inner)]

    def _how_to_confirm(self, plan: Plan, inner: int) -> Line:
        cancel, words, typed = Style.KEY("[Esc Cancel]"), plan_words(plan), self.edit.text
        if plan.confirm is Confirm.NUMBER and not (self.early and not typed):
            line = join("type ", Style.KEY(str(plan.count)), f" to {words}: ", Style.STRONG(f"{shown(typed)}_"))
            whole = join(cancel, "   ", line)
            return whole if line_width(whole) <= inner else line  # the typed text is more important than how to leave
        if plan.confirm is Confirm.NOTHING or not plan.count:
            return join(Style.KEY("[Esc Close]"), "   nothing to do")
        if self.early:
            return join(cancel, "   …")
        offered = plan.poison and not holds_poison(plan)
        hold = join("   ", Style.KEY("h"), f" {poison_words(plan)}") if offered else BLANK
        return join(cancel, "   ", Style.KEY(plan.confirm), f" {words}", hold)

    def _table(self, items: Sequence[Item], inner: int, rows: int) -> Lines:
        """A title and as many items as fit; the others are counted. Items that are not messages show their description. An undo
        shows the box that each item moves back to."""
        if items[0].words:
            return [line for item in items for line in paragraph(shown(item.words), inner, Style.STRONG)][:rows]
        undoes = self.action is Action.UNDO
        in_cur = items[0].row.box is Box.CUR and not undoes
        with_owner = in_cur and inner >= 56
        title = f"  {'held' if in_cur else 'age':>5}  {'tries':>5}  "
        if with_owner:
            title += f"{'owner':<18}"
        if undoes:
            title += f"{'effect':<{_EFFECT}}"
        else:
            title += f"{'verdict':<11}" if in_cur or items[0].row.box is Box.TMP else f"{'size':>7}  "
        fits = max(1, rows - 1)
        if len(items) > fits:
            fits = max(1, fits - 1)
        seen, now = visible(len(items), fits, self.at, 0), self.session.now()
        lines = [dim(f"{title}message"), *(_item_line(items[i], inner, now, with_owner, undoes) for i in seen)]
        if len(items) > fits:
            above = f", {seen.start:,} above" if seen.start else ""
            lines.append(dim(f"  … {len(items) - seen.stop:,} more below{above}"))
        return lines

    def _without_plan(self, width: int, height: int) -> Lines:
        if self.failed:
            lines = paragraph(shown(self.failed), width, margin=" ")
            return [(), *lines[: height - 3], (), join(" Esc leaves; nothing was changed")]
        if self.first:
            inner = inner_width(width)
            head = ("Nothing changes yet; Esc cancels.", f"{self.planning}; the first {len(self.first):,}:")
            body = [*map(join, head), *self._table(self.first, inner, max(2, height - 4))]
            return panel_frame(f"{self.action.value.capitalize()}: making the plan…", "", body, width)
        how_far = [(), join(f" {self.planning}")] if self.planning else []
        return [(), join(f" {self.action}: making the plan… nothing changes yet; Esc cancels"), *how_far]

    # Commands

    def do_confirm_number(self) -> None:
        if self.plan is None:
            return
        if self.edit.text != str(self.plan.count):
            self.show_notice(f"type the number {self.plan.count} and Enter; Esc leaves")
            return
        self.apply()

    def apply(self) -> None:
        """Applies the plan in the worker thread."""
        plan, session = self.plan, self.session
        if plan is None or self.applying:
            return
        self.applying = True
        self.began = session.control.now()
        if plan.action in FOLLOWS:
            # Before applying: a consumer may claim a message and finish it before the result is shown.
            session.snapshot_thread.follow([item.id for item in plan.items[:FOLLOWED_AT_MOST]], self.began)

        def stopped() -> bool:
            return self.stop.is_set() or session.leaving.is_set()

        def applied(result: Result | SpooltopError) -> None:
            # Kept here and not in the message: on leaving, messages are not taken any more.
            if isinstance(result, Result):
                session.results.append(result)
            deliver(self, self._applied, result)

        advanced = now_and_then(self, partial(setattr, self, "tried"))
        session.worker.submit(lambda: session.control.apply(plan, on_progress=advanced, stop=stopped), applied)

    def _applied(self, result: Result | SpooltopError) -> None:
        self.applying = False
        if isinstance(result, SpooltopError):
            self.session.snapshot_thread.follow(())
            self.failed = str(result)
            return
        plan = self.plan
        cursor = plan.items[0] if plan is not None and Action.SET_CURSOR in (plan.action, plan.undone) and plan.items else None
        self.open_screen(ResultScreen(self.session, result, self.began, cursor), lambda undo: self._after(result, undo))

    def _after(self, result: Result, undo: bool | None) -> None:
        self.dismiss(result)
        if undo:
            self.open_screen(PlanScreen(self.session, Action.UNDO, Selection(), {"undoes": result.operation}))

    def do_stop(self) -> None:
        self.stop.set()

    def do_force(self) -> None:
        self.force = True
        self.make()

    def do_hold_poison(self) -> None:
        self.options["hold_poison"] = True
        self.make()

    def do_rate(self) -> None:
        rate = self.plan.rate if self.plan is not None else None
        self.rate = LineEdit("" if rate is None else rate_limit(rate).replace(",", ""), limit=12)
        self.read_line(self.rate, lambda text: None, self._set_rate)

    def keys_line(self, width: int) -> Line:
        if self.rate is None:
            return super().keys_line(width)
        return footer_line([("Enter", "set it"), ("Esc", "leave it as it is")], width)

    def do_copy_command(self) -> None:
        if self.plan is not None:
            first, *more = [printable(line) for line in shell_lines(self.plan)]
            self.copy("\n".join([first, *more]), first + (f" and {len(more) - 1:,} ids below it" if more else ""))

    @property
    def listed(self) -> Sequence[Item]:
        return self.first if self.plan is None else self.plan.items

    def text_of(self, one: Item) -> str:
        return escape(one.id)
