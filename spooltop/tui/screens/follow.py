"""Panels about one message or file: its way through the boxes, of which each step that was seen stays as a line, and who has it
open or locked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from spooltop.model import Box, Frozen, Holders, Holding, Key, Owner, Row, TrackedMessage, Verdict, age, duration, escape, program

from ..commands import View
from ..draw.elements import (
    BLANK,
    Lines,
    Style,
    Zone,
    ago,
    clip_left,
    dim,
    inner_width,
    join,
    labelled,
    pad,
    pad_left,
    panel_frame,
    paragraph,
    safe,
    shown,
    when,
)
from ..messages import MessagesTracked
from .base import ScrollingScreen, Session, TextScreen

_HELD = {
    Box.HELD: "set aside in held", Box.REJECTED: "set aside in rejected", Box.TRASH: "in the trash", Box.DELIVERED: "delivered",
}  # fmt: skip


class TimelineStep(Frozen):
    """A step of a message: the time it happened or was seen. ``bad``: it is a problem."""

    at: float
    id: str
    words: str
    bad: bool = False


def _steps(old: TrackedMessage, new: TrackedMessage, row: Row | None, at: float, first: bool) -> Iterator[TimelineStep]:
    """The steps between two looks, in order."""

    def step(words: str, at: float = at, *, bad: bool = False) -> TimelineStep:
        return TimelineStep(at, new.id, words, bad)

    claimed = new.claimed_at is not None and new.claimed_at != old.claimed_at
    if old.box is Box.TMP and new.box is not Box.TMP and new.gone_at is None:
        yield step("complete")
    if claimed and new.claimed_at is not None:
        yield step(f"claimed {_by(new, row)}", new.claimed_at)
    if new.gone_at is not None and old.gone_at is None:
        claim = new.claimed_at
        how = "; consumer not seen" if claim is None else f", done after {duration(max(0.0, new.gone_at - claim))}"
        yield step(f"gone{how}", new.gone_at)
    elif new.box is Box.CUR and not claimed and old.box is not Box.CUR:
        yield step(f"being processed {_by(new, row)}")
    elif new.box is Box.NEW and (old.box is not Box.NEW or claimed):
        again = "back in new" if old.box not in (None, Box.TMP, Box.NEW) or claimed else "waits in new"
        yield step(f"{again}{_place(new)}")
    elif new.box is Box.TMP and old.box is not Box.TMP:
        yield step("being written in tmp")
    elif new.box in _HELD and old.box is not new.box:
        reason = f": {row.reason}" if row is not None and row.reason else ""
        yield step(f"{_HELD[new.box]}{reason}")
    elif first and new.box is None and new.gone_at is None:
        yield step("not seen in any box")
    if new.box is Box.CUR and new.verdict is Verdict.DEAD and (claimed or old.verdict is not Verdict.DEAD):
        who = f"its holder {new.pid}" if new.pid is not None else "its holder"
        yield step(f"{who} is DEAD; the message stays in cur until it is requeued", bad=True)


def _by(new: TrackedMessage, row: Row | None) -> str:
    claim = row if row is not None and row.box is Box.CUR else None
    owner = (claim.owner if claim is not None else None) or Owner()
    pid = owner.pid if new.pid is None else new.pid
    words = "by a process that is not visible" if pid is None else f"by {pid}"
    if owner.name:
        words = f"by {escape(owner.name)}"
    elif owner.command:
        words += f" {escape(program(owner.command))}"
    return words if claim is None or claim.attempt is None else f"{words}, attempt {claim.attempt}"


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


def _places(ids: Sequence[str], now: Mapping[str, str], most: int) -> Lines:
    """The places of the messages. Where there are many: those that still exist, as far as they fit, and their number."""
    if len(ids) == 1:
        return [join(dim("now  "), Style.STRONG(shown(now.get(ids[0], "not found"))))]
    left = [id for id in ids if now.get(id, "gone") != "gone"]
    gone = sum(now.get(id) == "gone" for id in ids)
    lines = [join(dim("now  "), Style.STRONG(f"{gone:,} gone, {len(left):,} left"))]
    lines += [join(f"     {pad(clip_left(safe(id), _ID), _ID)} {shown(now[id])}") for id in left[:most]]
    if len(left) > most:
        lines.append(dim(f"     … {len(left) - most:,} more"))
    return lines


def _step(step: TimelineStep, inner: int, several: bool, zone: Zone) -> Lines:
    who = f"{pad(clip_left(safe(step.id), _ID), _ID)} " if several else ""
    label = join(dim(pad(when(step.at, zone), _TIME)), who)
    return labelled(label, inner, shown(step.words), Style.BAD if step.bad else Style.NORMAL)


class FollowScreen(ScrollingScreen[None]):
    """``since``: claims that began before it do not count (epoch seconds; 0: a present claim counts). ``keep``: the screen below
    follows the same ids and continues to. ``seen``: what is known of the messages already."""

    VIEW = View.FOLLOW
    session: Session
    began: float | None = None
    """When following began; None: not yet."""

    def __init__(
        self, session: Session, ids: Sequence[str], since: float = 0.0, *, keep: bool = False, seen: MessagesTracked | None = None
    ) -> None:
        super().__init__(session)
        self.ids = tuple(ids)
        self.since = since
        self.keep = keep
        self.seen = seen
        self.steps: list[TimelineStep] = []
        """Oldest first. They stay."""
        self.now: dict[str, str] = {}
        """A description of the present place of each id."""
        self._last: dict[str, TrackedMessage] = {}

    def on_mount(self) -> None:
        self.take(self.seen)
        if not self.keep:
            self.session.snapshot_thread.follow(self.ids, self.since)
        self.session.snapshot_thread.look_again()

    def on_unmount(self) -> None:
        if not self.keep:
            self.session.snapshot_thread.follow(())

    def take(self, found: object) -> None:
        """Takes the places of the messages at a new look, with the claims and files in ``tmp`` of the same look."""
        if not isinstance(found, MessagesTracked):
            return
        snapshot, at, first = self.session.snapshot, found.taken_at, self.began is None
        self.began = at if self.began is None else self.began
        rows = {row.id: row for row in (*snapshot.observation.tmp, *snapshot.observation.claims)}
        for id in self.ids:
            if (one := found.found.get(id)) is not None:
                row = rows.get(id)
                if one.box in (None, Box.TMP) and row is not None and row.box is Box.TMP:
                    one = TrackedMessage(id, Box.TMP, verdict=row.verdict)
                self.steps += _steps(self._last.get(id, TrackedMessage(id)), one, row, at, first)
                self.now[id] = _now(one, row, at)
                self._last[id] = one
        self.paint()

    def draw(self, width: int, height: int, at: int | None = None) -> Lines:
        """The current place, and below it the steps, oldest first, the newest visible; ``at`` lines back from there (None: as it
        is scrolled). With several messages the end of its id precedes each step."""
        ids, since, zone, inner = self.ids, self.began, self.session.zone(), inner_width(width)
        name = safe(ids[0]) if len(ids) == 1 else f"{len(ids):,} messages"
        head = [dim("looking for it…")]
        if since is not None:
            head = _places(ids, self.now, max(1, (height - 4) // 3))
        lines = [line for step in self.steps for line in _step(step, inner, len(ids) > 1, zone)]
        room = max(1, height - 3 - len(head))
        end = max(min(room, len(lines)), len(lines) - (self.at if at is None else at))
        seen = lines[max(0, end - room) : end]
        if end > room:
            seen[0] = dim(f"… {end - room + 1:,} lines above, k goes up")
        right = f"since {when(since, zone)}" if since is not None else ""
        return panel_frame(f"Following {clip_left(name, max(8, inner - 34))}", right, [*head, BLANK, *seen], width)

    @property
    def place(self) -> int:
        return len(self.steps) - 1 - self.at

    @property
    def listed(self) -> list[TimelineStep]:
        return self.steps

    def text_of(self, one: TimelineStep) -> str:
        return f"{one.id} {one.words}"

    def do_step(self, lines: int) -> None:
        # The newest step is last and stays visible: moving up scrolls back from there.
        super().do_step(-lines)

    def do_copy_panel(self) -> None:
        lines = self.draw(200, len(self.steps) + len(self.ids) + 50, 0)
        self.copy_lines(lines, f"{len(self.steps):,} steps")


# Who has a file open or locked: asked when the panel opens, and again on request.

_NARROW = 56
"""Inner width in cells from which on the user has a column."""


def _answer(holders: Holders, inner: int, at: float) -> Lines:
    lines = []
    if holders.processes:
        user = f"{'user':<9}" if inner >= _NARROW else ""
        dated = any(one.since is not None for one in holders.processes)  # the kernel gives no time for most locks
        since = f"{'for':>6}  " if dated else ""
        lines.append(dim(f"{'pid':>8}  {user}{since}{'how':<19}command"))
        lines += [line for one in holders.processes for line in _holder_line(one, inner, at if dated else None)]
    else:
        nobody = "no process has it open or locked" if holders.complete else "no process visible from here has it open or locked"
        lines += paragraph(nobody, inner)
    notes = holders.notes or (() if holders.complete else ("there may be others, not visible from here",))
    if notes:
        lines.append(BLANK)
    for note in notes:
        lines += labelled(Style.WARN("! " if not holders.complete else "  "), inner, shown(note))
    return lines


def _holder_line(one: Holding, inner: int, at: float | None) -> Lines:
    """``at`` None: without the column of durations."""
    since = "" if at is None else f"{pad_left(ago(one.since, at), 6)}  "
    user = pad(safe(one.user or "?"), 8) + " " if inner >= _NARROW else ""
    style = Style.WARN if "waits" in one.how else Style.NORMAL
    pid, unknown = ("?", "not visible") if one.pid is None else (str(one.pid), "?")
    command = safe(program(one.command)) if one.command else unknown
    lines = [join(f"{pad_left(pid, 8)}  {user}{since}", style(pad(shown(one.how), 18)), f" {command}")]
    if one.of:
        lines.append(dim(f"{' ' * 10}of {shown(one.of)}"))
    return lines


class HoldersScreen(TextScreen[None]):
    """``key`` is a row's key, or the path of a lock or cursor file; ``name`` is what users call it."""

    session: Session
    VIEW = View.HOLDERS
    holders: Holders | None = None
    looked_at: float | None = None

    def __init__(self, session: Session, key: Key, name: str) -> None:
        super().__init__(session)
        self.key = key
        self.about = name

    def on_mount(self) -> None:
        self.do_ask_again()

    def do_ask_again(self) -> None:
        """Looks at all processes, in the snapshot thread."""
        self.holders, self.failed, self.looked_at = None, "", None
        self.ask(self.session.snapshot_thread.run, self._look, partial(setattr, self, "holders"))

    def _look(self) -> Holders:
        try:
            return self.session.control.holders(self.key)
        finally:
            self.looked_at = self.session.control.now()

    def text(self, width: int) -> Lines:
        inner, at, who = inner_width(width), self.looked_at, self.session.control.who_has
        body = [dim("looking at all visible processes…")]
        if self.failed:
            body = paragraph(shown(self.failed), inner, Style.WARN)
        elif self.holders is not None and at is not None:
            body = _answer(self.holders, inner, at)
        looked = f"looked {when(at, self.session.zone())}" if at is not None else ""
        name = clip_left(safe(self.about), max(8, inner - 23 - len(who)))
        return panel_frame(f"{who.capitalize()} {name}", looked, body, width)

    def do_copy_panel(self) -> None:
        self.copy_lines(self.text(200), f"{self.session.control.who_has} {shown(self.about)}")
