"""The screen that shows who has a file open or locked. It asks when it opens, and again on request."""

from __future__ import annotations

from functools import partial

from spooltop.model.vocabulary import Holders, Holding, Key, program

from ..context import View
from ..draw.frame import WIDEST, inner_width, panel_frame
from ..draw.header import Zone, ago, when
from ..draw.spans import BLANK, Lines, Span, Style, crop, join, labelled, paragraph, plain
from ..draw.text import clip_left, pad, pad_left, safe, shown
from ..session import Session
from .base import TextScreen

_NARROW = 56
"""Inner width in cells from which on the user has a column."""


def holders_lines(
    name: str,
    holders: Holders | None,
    width: int,
    *,
    at: float | None,
    error: str = "",
    who: str = "who has",
    zone: Zone = None,
) -> Lines:
    """A panel of as many lines as are needed. ``name`` is the raw name that was asked about; ``holders`` None: not answered yet,
    or ``error`` says why there is no answer. ``at``: the time of the answer; ``who``: the first words of the title."""
    width = min(width, WIDEST)
    inner = inner_width(width)
    body: Lines
    if error:
        body = paragraph(shown(error), inner, Style.WARN)
    elif holders is None or at is None:
        body = [plain("looking at all visible processes…", inner, Style.DIM)]
    else:
        body = _answer(holders, inner, at)
    looked = f"looked {when(at, zone)}" if at is not None else ""
    return panel_frame(f"{who.capitalize()} {clip_left(safe(name), max(8, width - 27 - len(who)))}", looked, body, width)


def _answer(holders: Holders, inner: int, at: float) -> Lines:
    lines: Lines = []
    if holders.processes:
        user = f"{'user':<9}" if inner >= _NARROW else ""
        dated = any(one.since is not None for one in holders.processes)  # the kernel gives no time for most locks
        since = f"{'for':>6}  " if dated else ""
        lines.append(plain(f"{'pid':>8}  {user}{since}{'how':<19}command", inner, Style.DIM))
        lines += [line for one in holders.processes for line in _holder_line(one, inner, at if dated else None)]
    else:
        nobody = "no process has it open or locked" if holders.complete else "no process visible from here has it open or locked"
        lines += paragraph(nobody, inner)
    if holders.notes or not holders.complete:
        lines.append(BLANK)
    notes = holders.notes or (() if holders.complete else ("there may be others, not visible from here",))
    for note in notes:
        lines += labelled(Style.WARN("! " if not holders.complete else "  "), shown(note), inner)
    return lines


def _holder_line(one: Holding, inner: int, at: float | None) -> Lines:
    """``at`` None: without the column of durations."""
    pid = "?" if one.pid is None else str(one.pid)
    held = "—" if at is None else ago(one.since, at)
    since = "" if at is None else f"{pad_left(held, 6)}  "
    user = pad(safe(one.user or "?"), 8) + " " if inner >= _NARROW else ""
    style = Style.WARN if "waits" in one.how else Style.NORMAL
    command = safe(program(one.command)) if one.command else "not visible" if one.pid is None else "?"
    head = join(f"{pad_left(pid, 8)}  {user}{since}", Span(pad(shown(one.how), 18), style), f" {command}")
    lines = [crop(head, inner)]
    if one.of:
        lines.append(plain(f"{' ' * 10}of {shown(one.of)}", inner, Style.DIM))
    return lines


class HoldersScreen(TextScreen[None]):
    """``key`` is a row's key, or the path of a lock or cursor file; ``name`` is what users call it."""

    session: Session
    VIEW = View.HOLDERS

    def __init__(self, session: Session, key: Key, name: str) -> None:
        super().__init__(session)
        self.key = key
        self.about = name
        self.holders: Holders | None = None
        self.looked_at: float | None = None

    def on_mount(self) -> None:
        self.do_ask_again()

    def do_ask_again(self) -> None:
        """Looks at all processes, in the snapshot thread."""
        self.holders, self.failed, self.looked_at = None, "", None
        self.ask(self.session.snapshot_thread.run, self._look, partial(setattr, self, "holders"))
        self.paint()

    def _look(self) -> Holders:
        try:
            return self.session.control.holders(self.key)
        finally:
            self.looked_at = self.session.control.now()

    def text(self, width: int) -> Lines:
        return holders_lines(
            self.about, self.holders, width, at=self.looked_at, error=self.failed, who=self.session.control.labels.who,
            zone=self.session.zone(),
        )  # fmt: skip

    def do_copy_panel(self) -> None:
        self.copy_lines(self.text(200), f"{self.session.control.labels.who} {shown(self.about)}")
