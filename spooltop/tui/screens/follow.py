"""Follows messages by their ids through the boxes; each step that was seen stays as a line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from spooltop.model.plan import TrackedMessage
from spooltop.model.units import age, duration
from spooltop.model.vocabulary import Box, Row, Verdict, escape, program

from ..context import CommandContext, View
from ..draw.frame import WIDEST, inner_width, panel_frame
from ..draw.header import Zone, when
from ..draw.spans import BLANK, Lines, Span, Style, crop, fitted, join, plain
from ..draw.text import clip_left, pad, safe, shown, wrap
from ..messages import Found, MessagesTracked
from ..session import Session
from .base import ScrollingScreen

_HELD = {
    Box.HELD: "set aside in held", Box.REJECTED: "set aside in rejected", Box.TRASH: "in the trash", Box.DELIVERED: "delivered",
}  # fmt: skip


class TimelineStep(Struct, frozen=True):
    """A step of a message. ``seen``: ``at`` is the time it was seen, not the time it happened. ``bad``: it is a problem."""

    at: float
    id: str
    words: str
    seen: bool = True
    bad: bool = False


class Timeline:
    """``steps`` are oldest first and stay. ``now`` describes the present place of each id."""

    def __init__(self, ids: Sequence[str]) -> None:
        self.ids = tuple(ids)
        self.steps: list[TimelineStep] = []
        self.now: dict[str, str] = {}
        self.began: float | None = None
        self._last: dict[str, TrackedMessage] = {}

    def take(self, tracked: MessagesTracked, rows: Mapping[str, Row]) -> bool:
        """Takes another look; ``rows`` are the claims and files in ``tmp`` of the same look by id. True where there is something
        new to show."""
        before = len(self.steps), dict(self.now)
        first = self.began is None
        self.began = tracked.taken_at if self.began is None else self.began
        for id in self.ids:
            if (one := tracked.found.get(id)) is not None:
                row = rows.get(id)
                if one.box in (None, Box.TMP) and row is not None and row.box is Box.TMP:
                    one = TrackedMessage(id, Box.TMP, verdict=row.verdict)
                self.steps += _steps(self._last.get(id), one, row, tracked.taken_at, first)
                self.now[id] = _now(one, row, tracked.taken_at)
                self._last[id] = one
        return (len(self.steps), self.now) != before


def _steps(old: TrackedMessage | None, new: TrackedMessage, row: Row | None, at: float, first: bool) -> list[TimelineStep]:
    """The steps between two looks, in order."""
    steps: list[TimelineStep] = []

    def add(words: str) -> None:
        steps.append(TimelineStep(at, new.id, words))

    where = old.box if old is not None else None
    claimed = new.claimed_at is not None and (old is None or new.claimed_at != old.claimed_at)
    if where is Box.TMP and new.box is not Box.TMP and new.gone_at is None:
        add("complete")
    if claimed and new.claimed_at is not None:
        steps.append(TimelineStep(new.claimed_at, new.id, f"claimed {_by(new, row)}", seen=False))
    if new.gone_at is not None and (old is None or old.gone_at is None):
        steps.append(_gone(new))
    elif new.box is Box.CUR and not claimed and where is not Box.CUR:
        add(f"being processed {_by(new, row)}")
    elif new.box is Box.NEW and (where is not Box.NEW or claimed):
        again = "back in new" if where not in (None, Box.TMP, Box.NEW) or claimed else "waits in new"
        add(f"{again}{_place(new)}")
    elif new.box is Box.TMP and where is not Box.TMP:
        add("being written in tmp")
    elif new.box in _HELD and where is not new.box:
        reason = f": {row.reason}" if row is not None and row.reason else ""
        add(f"{_HELD[new.box]}{reason}")
    elif first and new.box is None and new.gone_at is None:
        add("not seen in any box")
    if new.box is Box.CUR and new.verdict is Verdict.DEAD and (claimed or old is None or old.verdict is not Verdict.DEAD):
        who = f"its holder {new.pid}" if new.pid is not None else "its holder"
        steps.append(TimelineStep(at, new.id, f"{who} is DEAD; the message stays in cur until it is requeued", bad=True))
    return steps


def _gone(new: TrackedMessage) -> TimelineStep:
    gone = new.gone_at or 0.0
    if new.claimed_at is None:
        return TimelineStep(gone, new.id, "gone; consumer not seen", seen=False)
    return TimelineStep(gone, new.id, f"gone, done after {duration(max(0.0, gone - new.claimed_at))}", seen=False)


def _by(new: TrackedMessage, row: Row | None) -> str:
    words = f"by {new.pid}" if new.pid is not None else "by a process that is not visible"
    if row is not None and row.box is Box.CUR:
        owner = row.owner
        if owner is not None and new.pid is None and owner.pid is not None:
            words = f"by {owner.pid}"
        if owner is not None and owner.name:
            words = f"by {escape(owner.name)}"
        elif owner is not None and owner.command:
            words += f" {escape(program(owner.command))}"
        if row.attempt is not None:
            words += f", attempt {row.attempt}"
    return words


def _place(new: TrackedMessage) -> str:
    if new.place is None:
        return ""
    return f", place {new.place:,}" + (f" of {max(new.of, new.place):,}" if new.of is not None else "")


def _now(one: TrackedMessage, row: Row | None, at: float) -> str:
    """The present place of a message, with a description that changes while it stays there."""
    if one.gone_at is not None:
        return "gone"
    match one.box:
        case Box.NEW:
            return f"waits in new{_place(one)}"
        case Box.CUR:
            since = one.claimed_at if one.claimed_at is not None else row.in_box_since if row is not None else None
            held = f" for {age(max(0.0, at - since))}" if since is not None else ""
            verdict = " · DEAD" if one.verdict is Verdict.DEAD else " · unknown" if one.verdict is Verdict.UNKNOWN else ""
            return f"being processed {_by(one, row)}{held}{verdict}"
        case Box.TMP:
            return "being written in tmp" if one.verdict is not Verdict.ABANDONED else "in tmp, abandoned"
        case None:
            return "in no box at this look"
        case box:
            return _HELD[box]


_TIME = 10
_ID = 16


def follow_lines(
    ids: Sequence[str],
    steps: Sequence[TimelineStep],
    now: Mapping[str, str],
    width: int,
    height: int,
    *,
    since: float | None,
    zone: Zone = None,
    scroll: int = 0,
) -> Lines:
    """A panel of at most ``height`` lines: the current place, and below it the steps, oldest first, the newest visible;
    ``scroll`` lines back from there. ``since`` is when following began (None: not yet). With several messages the end of its
    id precedes each step."""
    width = min(width, WIDEST)
    inner = inner_width(width)
    name = safe(ids[0]) if len(ids) == 1 else f"{len(ids):,} messages"
    title = f"Following {clip_left(name, max(8, width - 38))}"
    head = [plain("looking for it…", inner, Style.DIM)]
    if since is not None:
        head = _places(ids, now, inner, max(1, (height - 4) // 3))
    step_lines = [line for step in steps for line in _step(step, inner, len(ids) > 1, zone)]
    room = max(1, height - 2 - len(head) - 1)
    end = max(min(room, len(step_lines)), len(step_lines) - max(0, scroll))
    seen = step_lines[max(0, end - room) : end]
    above = len(step_lines) - len(seen)
    if above and seen and end - room > 0:
        seen[0] = plain(f"… {end - room + 1:,} lines above, k goes up", inner, Style.DIM)
    right = f"since {when(since, zone)}" if since is not None else ""
    return panel_frame(title, right, [*head, BLANK, *seen], width)[:height]


def _places(ids: Sequence[str], now: Mapping[str, str], inner: int, most: int) -> Lines:
    """The places of the messages. Where there are many: those that still exist, as far as they fit, and their number."""
    if len(ids) == 1:
        return [fitted(inner, Style.DIM("now  "), Style.STRONG(shown(now.get(ids[0], "not found"))))]
    left = [id for id in ids if now.get(id, "gone") != "gone"]
    gone = sum(1 for id in ids if now.get(id) == "gone")
    lines = [fitted(inner, Style.DIM("now  "), Style.STRONG(f"{gone:,} gone, {len(left):,} left"))]
    lines += [plain(f"     {pad(clip_left(safe(id), _ID), _ID)} {shown(now[id])}", inner) for id in left[:most]]
    if len(left) > most:
        lines.append(plain(f"     … {len(left) - most:,} more", inner, Style.DIM))
    return lines


def _step(step: TimelineStep, inner: int, several: bool, zone: Zone) -> Lines:
    who = f"{pad(clip_left(safe(step.id), _ID), _ID)} " if several else ""
    indent = _TIME + len(who)
    parts = wrap(shown(step.words), max(8, inner - indent))
    style = Style.BAD if step.bad else Style.NORMAL
    first = join(Style.DIM(pad(when(step.at, zone), _TIME)), who, Span(parts[0], style))
    return [crop(first, inner), *(plain(f"{' ' * indent}{part}", inner, style) for part in parts[1:])]


class FollowScreen(ScrollingScreen[None]):
    """``since``: claims that began before it do not count (epoch seconds; 0: a present claim counts). ``keep``: the screen below
    follows the same ids and continues to. ``seen``: what is known of the messages already."""

    session: Session

    def __init__(
        self, session: Session, ids: Sequence[str], since: float = 0.0, *, keep: bool = False, seen: MessagesTracked | None = None
    ) -> None:
        super().__init__(session)
        self.since = since
        self.keep = keep
        self.seen = seen
        self.timeline = Timeline(ids)

    def on_mount(self) -> None:
        if self.seen is not None:
            self.timeline.take(self.seen, self._rows())
        if not self.keep:
            self.session.snapshot_thread.follow(self.timeline.ids, self.since)
        self.session.snapshot_thread.look_again()

    def on_unmount(self) -> None:
        if not self.keep:
            self.session.snapshot_thread.follow(())

    def _rows(self) -> dict[str, Row]:
        """Claims and files in tmp of the last look that are followed."""
        snapshot, ids = self.session.snapshot, set(self.timeline.ids)
        if snapshot is None:
            return {}
        return {row.id: row for row in (*snapshot.observation.tmp, *snapshot.observation.claims) if row.id in ids}

    def take(self, found: Found) -> None:
        """Takes the places of the messages at a new look."""
        if isinstance(found, MessagesTracked) and self.timeline.take(found, self._rows()):
            self.paint()

    def context(self) -> CommandContext:
        return CommandContext(View.FOLLOW, snapshot=self.session.snapshot, rows=1, depth=1, tracked=len(self.timeline.ids))

    def draw(self, width: int, height: int, scroll: int | None = None) -> Lines:
        seen = self.timeline
        return follow_lines(
            seen.ids, seen.steps, seen.now, width, height, since=seen.began, zone=self.session.zone(),
            scroll=self.scroll_at if scroll is None else scroll,
        )  # fmt: skip

    @property
    def place(self) -> int:
        return len(self.timeline.steps) - 1 - self.scroll_at

    @property
    def texts(self) -> list[str]:
        return [f"{step.id} {step.words}" for step in self.timeline.steps]

    def do_step(self, lines: int) -> None:
        # The newest step is last and stays visible: moving up scrolls back from there.
        super().do_step(-lines)

    def do_copy_panel(self) -> None:
        lines = self.draw(200, len(self.timeline.steps) + len(self.timeline.ids) + 50, scroll=0)
        self.copy_lines(lines, f"{len(self.timeline.steps):,} steps")
