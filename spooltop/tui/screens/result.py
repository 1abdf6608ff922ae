"""The screen of a result. It stays until it is closed, and says what happened since: where the messages that were moved are now,
what the cursor is now."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import NamedTuple

from spooltop.cursors.model import direction, pick
from spooltop.cursors.model import shown as cursor_text
from spooltop.model.plan import Outcome, Plan, Result, TrackedMessage
from spooltop.model.snapshot import Snapshot
from spooltop.model.units import age, duration
from spooltop.model.vocabulary import ASIDE, Action, Box, Json, Verdict, escape, program, same_json

from ..context import CommandContext, View
from ..draw.frame import WIDEST, inner_width, note_lines, panel_frame
from ..draw.header import Zone, when
from ..draw.spans import BLANK, Line, Lines, Span, Style, crop, fitted, headed, join, labelled, plain
from ..draw.text import clip_left, safe, shown
from ..messages import Found, MessagesTracked, SnapshotTaken
from ..session import Session
from ..terminal.lifecycle import PAST
from .base import ScrollingScreen
from .follow import FollowScreen

FOLLOWS = frozenset({Action.REQUEUE, Action.RELEASE, Action.RESTORE, Action.INJECT, Action.UNDO})
"""Actions whose messages move on by themselves."""

FOLLOWED_AT_MOST = 1_000
"""Maximum number of messages that are followed."""


def followed_ids(result: Result) -> tuple[str, ...]:
    """The ids of the first items that were done, where their messages move on."""
    if result.action not in FOLLOWS or not result.count(Outcome.DONE):
        return ()
    return tuple(islice((item.id for item in result.items if item.outcome is Outcome.DONE), FOLLOWED_AT_MOST))


class CursorSet(NamedTuple):
    """A cursor that an operation set, and its new value as a snapshot shows it."""

    source: str
    file: str
    value: Json


def cursor_set(plan: Plan) -> CursorSet | None:
    """The cursor that ``plan`` sets, None where it sets none."""
    if plan.action is not Action.SET_CURSOR and plan.undone is not Action.SET_CURSOR:
        return None
    return next((CursorSet(item.id, item.name, item.value) for item in plan.items[:1]), None)


def cursor_since(result: Result, was: CursorSet, snapshot: Snapshot | None) -> tuple[str, ...]:
    """Says whether the cursor still has the value that it was set to, and who overwrote it. Empty before the first look after
    that."""
    if snapshot is None or snapshot.taken_at < result.finished_at or not result.count(Outcome.DONE):
        return ()
    cursor = next((one for one in snapshot.cursors if (one.source, one.file) == (was.source, was.file)), None)
    if cursor is None or cursor.verdict in ("missing", "unreadable"):
        return (f"{escape(was.source)} cannot be read now: {cursor.evidence if cursor is not None else 'its file is gone'}",)
    if same_json(cursor.value, was.value):
        return (f"still {cursor.shown}: nobody has written over it for {age(snapshot.taken_at - result.finished_at)}",)
    first = None
    for write in cursor.history:  # newest first
        if same_json(write.value, was.value):
            break
        first = write
    step = direction(pick(was.value, cursor.field), pick(cursor.value, cursor.field))
    after = "" if first is None else f" after {duration(max(0.0, first.at - result.finished_at))}"
    writer = first.writer if first is not None else None
    by = "" if writer is None else f" by {writer.pid} {escape(program(writer.command or ''))}".rstrip()
    change = f"{cursor_text(was.value, cursor.field)} → {cursor.shown}"
    if step == 1:
        return (f"advanced{after}{by}: {change}",)
    return (
        f"OVERWRITTEN{after}{by}: {change}; a poller wrote back what it had read before: stop it, then set the cursor",
    )


def since_then(result: Result, tracked: MessagesTracked | None, ids: Sequence[str]) -> tuple[str, ...]:
    """Says who claimed the messages, what happened to them, and how many still wait. Empty before the first look after the
    operation. ``ids`` are those of ``followed_ids``."""
    if tracked is None or tracked.taken_at < result.finished_at or not ids:
        return ()
    found = [tracked.found[id] for id in ids if id in tracked.found]
    end, now = result.finished_at, tracked.taken_at
    lines = _taken(found, end, now)
    gone = [one for one in found if one.gone_at is not None and one.claimed_at is None]
    if gone:
        lines.append(f"{len(gone):,} taken and gone; consumer not seen")
    lines += _waiting([one for one in found if one.box is Box.NEW and one.claimed_at is None], now - end)
    for box in Box:
        if box is not Box.NEW and (here := sum(1 for one in found if one.box is box and one.claimed_at is None)):
            lines.append(f"{here:,} {'set aside in' if box in ASIDE else 'in'} {box}")
    if unseen := sum(1 for one in found if one.box is None and one.gone_at is None and one.claimed_at is None):
        lines.append(f"{unseen:,} on the way, not seen in any box yet")
    if more := result.count(Outcome.DONE) - len(found):
        lines.append(f"first {len(found):,} only; {more:,} more are not followed")
    return tuple(lines)


def waiting(result: Result, tracked: MessagesTracked | None, ids: Sequence[str]) -> int | None:
    """The number of messages that still wait to be claimed: those that an undo can move. None where it is not known or the
    messages do not wait. ``ids`` as above."""
    if tracked is None or not ids or result.action is Action.UNDO or len(tracked.found) < result.count(Outcome.DONE):
        return None
    return sum(1 for one in tracked.found.values() if one.box is Box.NEW)


def _taken(found: Sequence[TrackedMessage], end: float, now: float) -> list[str]:
    """Returns a line for each claimant and each outcome of its messages."""
    groups: dict[tuple[int | None, str], list[TrackedMessage]] = {}
    for one in found:
        if one.claimed_at is None:
            continue
        now_is = "gone" if one.gone_at is not None else str(one.box or "")
        if one.verdict in (Verdict.DEAD, Verdict.UNKNOWN):
            now_is = str(one.verdict)
        groups.setdefault((one.pid, now_is), []).append(one)
    lines = []
    for (pid, now_is), ones in sorted(groups.items(), key=lambda group: (group[0][0] or 0, group[0][1])):
        who = f"by {pid}" if pid is not None else "by a process that is not visible"
        words = f"{len(ones):,} claimed {who} after {_times(ones, lambda one: (one.claimed_at or end) - end)}"
        match now_is:
            case "gone":
                words += f", done after {_times(ones, lambda one: (one.gone_at or end) - end)}"
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


def _waiting(ones: Sequence[TrackedMessage], since: float) -> list[str]:
    if not ones:
        return []
    places = sorted(one.place for one in ones if one.place is not None)
    of = max((one.of for one in ones if one.of is not None), default=None)
    words = f"{len(ones):,} wait{'s' if len(ones) == 1 else ''} in new"
    if places and of is not None:
        span = f"{places[0]:,}" if places[0] == places[-1] else f"{places[0]:,} to {places[-1]:,}"
        words += f", place {span} of {max(of, places[-1]):,}"
    return [f"{words}, nobody took {'it' if len(ones) == 1 else 'them'} for {age(max(0.0, since))}"]


def _times(ones: Iterable[TrackedMessage], of: Callable[[TrackedMessage], float]) -> str:
    """The shortest and the longest of some durations, as one where they are the same."""
    times = sorted(max(0.0, of(one)) for one in ones)
    least, longest = duration(times[0]), duration(times[-1])
    return least if least == longest else f"{least} to {longest}"


# Draws the result of an operation.

_DONE = {Action.EMPTY: "Deleted", Action.UNDO: "Undone", Action.UNLOCK: "Removed"}
"""The titles of results that do not begin with the words for the past."""


def result_lines(
    result: Result,
    width: int,
    height: int,
    *,
    since: Sequence[str] = (),
    waiting: int | None = None,
    zone: Zone = None,
    scroll: int = 0,
) -> Lines:
    """A panel of at most ``height`` lines: how many items were done, skipped and failed, and the reasons and names of the last
    two. ``since`` tells what happened to the messages since, of which an undo can move ``waiting``. ``scroll`` skips lines in
    the middle."""
    width = min(width, WIDEST)
    inner = inner_width(width)
    counts = {outcome: result.count(outcome) for outcome in Outcome}
    head: Line = join(
        f"done {counts[Outcome.DONE]:,} · skipped {counts[Outcome.SKIPPED]:,} · ",
        Span(f"failed {counts[Outcome.FAILED]:,}", Style.BAD if counts[Outcome.FAILED] else Style.NORMAL),
        f" · stopped, {result.untried:,} not attempted" if result.stopped or result.untried else "",
    )
    middle: list[Line | int] = []  # names are looked up and drawn when they are shown: there may be a million
    for i, words in enumerate(since):
        middle += labelled(Style.DIM(" " * 12 if i else "since then  "), shown(words), inner)
    middle += _not_done(result, inner)
    middle += note_lines(result.notes, inner)
    foot: Lines = [BLANK]
    keys: list[Span | str] = [Style.KEY("[Esc Close]")]
    if result.undo:
        foot.append(plain(f"undo: {shown(shlex.join(result.undo))}", inner))
        which = "" if waiting is None else f" (the {waiting:,} that wait{'s' if waiting == 1 else ''})"
        keys += ["   ", Style.KEY("z"), f" undo{which}"]
    keys += ["   ", Style.KEY("c"), " copy as text"]
    foot.append(fitted(inner, *keys))
    room = max(1, height - 3 - len(foot))
    scroll = max(0, min(scroll, len(middle) - room))
    seen = [_name(result.items[one].id, inner) if isinstance(one, int) else one for one in middle[scroll : scroll + room]]
    hidden = len(middle) - scroll - room
    if hidden > 0:
        seen[-1] = plain(f"… {hidden + 1:,} more lines", inner, Style.DIM)
    many = "" if result.action in (Action.PAUSE, Action.RESUME) else f" {counts[Outcome.DONE]:,}"
    title = f"{_DONE.get(result.action, PAST[result.action].capitalize())}{many} · operation {shown(result.operation)}"
    return panel_frame(title, when(result.finished_at, zone), [crop(head, inner), *seen, *foot], width)[:height]


def _name(name: str, inner: int) -> Line:
    return plain(f"   {clip_left(safe(name), max(4, inner - 3))}", inner)


def _not_done(result: Result, inner: int) -> list[Line | int]:
    """The skipped and failed items by place, grouped by reason; failures first."""
    lines: list[Line | int] = []
    for (outcome, reason), places in sorted(result.not_done.items(), key=lambda group: group[0][0] is not Outcome.FAILED):
        head = Span(f"{outcome.value} {len(places):,}: ", Style.BAD if outcome is Outcome.FAILED else Style.WARN)
        lines += headed(head, shown(reason) or "no reason given", inner)
        lines += places
    return lines


class ResultScreen(ScrollingScreen[bool]):
    """Returns True where it is to be undone. ``since``: when the change began, epoch seconds; claims after it count. ``cursor``:
    the cursor that it set."""

    session: Session

    def __init__(self, session: Session, result: Result, since: float, cursor: CursorSet | None = None) -> None:
        super().__init__(session)
        self.result = result
        self.since = since
        self.cursor = cursor
        self.ids = () if cursor is not None else followed_ids(result)
        self.tracked: MessagesTracked | None = None

    def on_mount(self) -> None:
        if self.ids:
            self.session.snapshot_thread.follow(self.ids, self.since)

    def on_unmount(self) -> None:
        self.session.snapshot_thread.follow(())

    def context(self) -> CommandContext:
        why = "" if self.result.undo else "nothing can be undone"
        return CommandContext(View.RESULT, snapshot=self.session.snapshot, rows=1, depth=1, undoable=why, tracked=len(self.ids))

    def take(self, found: Found) -> None:
        """Takes the places of the messages at a new look."""
        if isinstance(found, MessagesTracked):
            self.tracked = found
            self.paint()
        elif self.cursor is not None and isinstance(found, SnapshotTaken):
            self.paint()

    def draw(self, width: int, height: int) -> Lines:
        since = since_then(self.result, self.tracked, self.ids)
        if self.cursor is not None:
            since = cursor_since(self.result, self.cursor, self.session.snapshot)
        left = waiting(self.result, self.tracked, self.ids)
        return result_lines(self.result, width, height, since=since, waiting=left or None, scroll=self.scroll_at)

    def do_undo_result(self) -> None:
        self.dismiss(True)

    def do_follow(self) -> None:
        self.open_screen(FollowScreen(self.session, self.ids, self.since, keep=True, seen=self.tracked))

    def do_copy_result(self) -> None:
        lines = self.draw(200, len(self.result.items) + 50)
        self.copy_lines(lines, f"the result of {self.result.operation}, {self.result.count(Outcome.DONE):,} done")

    @property
    def texts(self) -> list[str]:
        return [f"{escape(item.id)} {item.outcome} {item.reason}" for item in self.result.items]

    @property
    def length(self) -> int:
        return len(self.result.items)
