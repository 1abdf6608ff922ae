"""The help screen: the keys of one view from the table. Commands that are not available are dim and say why."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct
from textual.events import Key

from ..commands import help_entries
from ..context import CommandContext, View
from ..draw.header import notice_lines
from ..draw.spans import BLANK, Line, Lines, Span, Style, fitted, join, line_text, line_width, merge, plain
from ..draw.text import clip, pad, shown, text_width, wrap
from ..messages import Found
from ..session import AppSession
from ..widgets import LinesView
from .base import ScrollingScreen

_TWO_COLUMNS = 76


class HelpEntry(Struct, frozen=True):
    """A line of help. ``why_not`` says why the command is not available now, "" where it is."""

    keys: str
    words: str
    why_not: str = ""


class HelpSection(Struct, frozen=True):
    """Keys that belong together."""

    title: str
    entries: tuple[HelpEntry, ...]


def _legend(title: str, **words: str) -> HelpSection:
    return HelpSection(title, tuple(HelpEntry(sign.replace("_", " "), text) for sign, text in words.items()))


LEGEND = (
    HelpSection(
        "Signs",
        (
            HelpEntry("✗ ! ·", "critical problem, warning, note"), HelpEntry("✓ ‖", "no problems, paused"),
            HelpEntry("≥ ≤", "at least, at most"), HelpEntry("…", "left out: no room, or the same in each row"),
            HelpEntry("~", "estimate"), HelpEntry("—", "none, or under 20 samples"), HelpEntry("?", "not visible to you"),
            HelpEntry("· in a bar", "not watched yet"), HelpEntry("(5 ↓)", "5 of the writes went back"),
        ),
    ),
    _legend(
        "Claims", alive="its consumer is running", DEAD="its consumer has exited: r",
        unknown="not known from here",
    ),
    _legend(
        "Tmp", WRITING="locked, open or growing", abandoned="its writer has exited: d", unknown="not known from here",
    ),
    _legend(
        "Consumers", running="may claim", DEAD="has exited and holds claims: r", exited="has exited, holds nothing",
        stopped="halted by a signal or a debugger", unknown="not known from here",
    ),
    _legend(
        "Cursors", advancing="advances as usual", not_advancing="idle, or stalled", idle="has nothing new",
        REVERTED="an old value overwrote it", REWOUND="set back once, on purpose?",
        STALLED="polls, and does not advance", STOPPED="no longer polls",
        MISSING="its section or file is gone", UNREADABLE="its file does not parse",
    ),
    _legend(
        "Locks", held="a process holds it", BLOCKED="held long, others wait", STALE="its holder has exited: d",
        free="no process holds it", unknown="not known from here",
    ),
)  # fmt: skip
"""The meaning of the signs and of the verdicts."""


MOUSE = HelpSection("Mouse", (HelpEntry("Shift", "selects text: mouse on (off: --no-mouse, mouse = false)"),))
"""The help where the mouse is on."""


def draw_help(sections: Sequence[HelpSection], width: int, height: int, *, scroll: int = 0) -> Lines:
    """At most ``height`` lines from ``scroll`` on, in two columns where they fit. Commands that are not available are dim and say
    why."""
    every = [text_width(entry.keys) for section in sections for entry in section.entries]
    keys = min(max(every, default=0), 18, max(8, width // 4))
    lines: Lines = []
    for section in sections:
        if lines:
            lines.append(BLANK)
        if section.title:
            lines.append(plain(f" {shown(section.title)}", width, Style.TITLE))
        lines += _entries(section.entries, keys, width)
    scroll = max(0, min(scroll, len(lines) - height))
    seen = lines[scroll : scroll + height]
    hidden = len(lines) - scroll - height
    if hidden > 0 and seen:
        seen[-1] = plain(f" … {hidden + 1} more lines, PgDn", width, Style.DIM)
    return seen


def _entries(entries: Sequence[HelpEntry], keys: int, width: int) -> Lines:
    half = width // 2
    lines: Lines = []
    waiting: Line | None = None
    for entry in entries:
        short = _entry(entry, keys)
        if width < _TWO_COLUMNS or line_width(short) > half - 1:
            if waiting is not None:
                lines.append(waiting)
                waiting = None
            lines += _long(entry, keys, width)
        elif waiting is None:
            waiting = short
        else:
            lines.append(fitted(width, waiting, " " * (half - line_width(waiting)), short))
            waiting = None
    if waiting is not None:
        lines.append(waiting)
    return lines


def _entry(entry: HelpEntry, keys: int) -> Line:
    if entry.why_not:
        return (Style.DIM(f"   {pad(_keys(shown(entry.keys), keys), keys)}  {_words(entry)}"),)
    return merge((Style.KEY(f"   {pad(_keys(shown(entry.keys), keys), keys)}"), Span(f"  {shown(entry.words)}")))


def _words(entry: HelpEntry) -> str:
    """The help of a command and why it is not available here. A reason may begin with the command's name, which is left out."""
    words, reason = shown(entry.words), shown(entry.why_not)
    name, colon, rest = reason.partition(": ")
    if colon and words.startswith(name):
        reason = rest
    return f"{words}; not now: {reason}" if reason else words


def _keys(names: str, room: int) -> str:
    """As many of the keys as fit, none of them cut."""
    while text_width(names) > room and " " in names:
        names = names.rpartition(" ")[0]
    return clip(names, room)


def _long(entry: HelpEntry, keys: int, width: int) -> Lines:
    parts = wrap(_words(entry), max(8, width - keys - 6))
    style = Style.DIM if entry.why_not else Style.NORMAL
    first = join(Span(f"   {pad(_keys(shown(entry.keys), keys), keys)}", Style.DIM if entry.why_not else Style.KEY))
    lines = [fitted(width, first, Span(f"  {parts[0]}", style))]
    lines += [plain(f"{' ' * (keys + 5)}{part}", width, style) for part in parts[1:]]
    return lines


def sections(context: CommandContext, *, mouse: bool) -> list[HelpSection]:
    """The table's help of one view, as sections to draw; ``mouse``: the mouse is on."""
    titled = help_entries(context).items()
    commands = [HelpSection(title, tuple(HelpEntry(*entry) for entry in entries)) for title, entries in titled if entries]
    # a view that this kind of queue does not have needs no legend
    legend = [section for section in LEGEND if section.title.lower() not in context.absent]
    return [*commands, *((MOUSE,) if mouse else ()), *legend]


class HelpScreen(ScrollingScreen[None]):
    """``about`` gives the context of the screen that help was asked from, which changes while help is shown: lists are read."""

    FIXED_LINES = 2

    def __init__(self, session: AppSession, about: Callable[[], CommandContext]) -> None:
        super().__init__(session)
        self.about = about

    def _sections(self) -> list[HelpSection]:
        return sections(self.about(), mouse=self.session.options.mouse)

    def context(self) -> CommandContext:
        return CommandContext(View.HELP, snapshot=self.about().snapshot, depth=1, rows=1)

    def take(self, found: Found) -> None:
        """Says what is available now."""
        self.paint()

    def paint(self) -> None:
        if not self.ready:
            return
        width, height = self.window_size
        notice = notice_lines(self.message, width) if self.message else []
        height = max(1, height - len(notice))
        everything = draw_help(self._sections(), width, 1000)
        self.scroll_at = max(0, min(self.scroll_at, len(everything) - height))
        lines = draw_help(self._sections(), width, height, scroll=self.scroll_at)
        self.query_one(LinesView).show([*lines, *[()] * (height - len(lines)), *notice] if notice else lines)

    @property
    def texts(self) -> list[str]:
        return [line_text(line) for line in draw_help(self._sections(), self.window_size[0], 1000)]

    def typed(self, event: Key) -> bool:
        if super().typed(event):
            return True
        if event.key in ("question_mark", "f1"):
            self.dismiss(None)
            return True
        return False
