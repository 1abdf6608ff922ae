"""The help screen: the keys of one view from the table. Commands that are not available are dim and say why."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct
from textual.events import Key

from ..commands import help_entries
from ..context import CommandContext, View
from ..draw.spans import BLANK, Line, Lines, Style, fitted, line_width, plain
from ..draw.text import clip, pad, shown, text_width, wrap
from ..messages import Found
from ..session import AppSession
from .base import TextScreen

_TWO_COLUMNS = 76


class HelpEntry(Struct, frozen=True):
    """A line of help. ``why_not`` says why the command is not available now, "" where it is."""

    keys: str
    words: str
    why_not: str = ""


LEGEND = {
    "Signs": {
        "✗ ! ·": "critical problem, warning, note", "✓ ‖": "no problems, paused", "≥ ≤": "at least, at most",
        "…": "left out: no room, or the same in each row", "~": "estimate", "—": "none, or under 20 samples",
        "?": "not visible to you", "· in a bar": "not watched yet", "(5 ↓)": "5 of the writes went back",
    },
    "Claims": {
        "alive": "its consumer is running", "DEAD": "its consumer has exited: r", "unknown": "not known from here",
    },
    "Tmp": {
        "WRITING": "locked, open or growing", "abandoned": "its writer has exited: d", "unknown": "not known from here",
    },
    "Consumers": {
        "running": "may claim", "DEAD": "has exited and holds claims: r", "exited": "has exited, holds nothing",
        "stopped": "halted by a signal or a debugger", "unknown": "not known from here",
    },
    "Cursors": {
        "advancing": "advances as usual", "not advancing": "idle, or stalled", "idle": "has nothing new",
        "REVERTED": "an old value overwrote it", "REWOUND": "set back once, on purpose?",
        "STALLED": "polls, and does not advance", "STOPPED": "no longer polls",
        "MISSING": "its section or file is gone", "UNREADABLE": "its file does not parse",
    },
    "Locks": {
        "held": "a process holds it", "BLOCKED": "held long, others wait", "STALE": "its holder has exited: d",
        "free": "no process holds it", "unknown": "not known from here",
    },
}  # fmt: skip
"""The meaning of the signs and of the verdicts."""


MOUSE = {"Mouse": {"Shift": "selects text: mouse on (off: --no-mouse, mouse = false)"}}
"""The help where the mouse is on."""


def draw_help(sections: Mapping[str, Sequence[HelpEntry]], width: int) -> Lines:
    """The help, in two columns where they fit. ``sections`` are entries that belong together,
    by their titles. Commands that are not available are dim and say why."""
    every = [text_width(entry.keys) for entries in sections.values() for entry in entries]
    keys = min(max(every, default=0), 18, max(8, width // 4))
    lines: Lines = []
    for title, entries in sections.items():
        if lines:
            lines.append(BLANK)
        if title:
            lines.append(plain(f" {shown(title)}", width, Style.TITLE))
        lines += _entries(entries, keys, width)
    return lines


def fit(lines: Lines, width: int, height: int) -> Lines:
    """At most ``height`` lines, of which the last says how many more there are."""
    more = len(lines) - height
    return [*lines[: height - 1], plain(f" … {more + 1} more lines, PgDn", width, Style.DIM)] if more > 0 else lines


def _entries(entries: Sequence[HelpEntry], keys: int, width: int) -> Lines:
    half = width // 2
    lines: Lines = []
    left: Line = ()
    """An entry that waits for one next to it."""
    for entry in entries:
        first, *more = _entry(entry, keys, width)
        if width < _TWO_COLUMNS or more or line_width(first) > half - 1:
            lines += [*filter(None, (left,)), first, *more]
            left = ()
        elif not left:
            left = first
        else:
            lines.append(fitted(width, left, " " * (half - line_width(left)), first))
            left = ()
    return [*lines, *filter(None, (left,))]


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


def _entry(entry: HelpEntry, keys: int, width: int) -> Lines:
    parts = wrap(_words(entry), max(8, width - keys - 6))
    key, style = (Style.DIM, Style.DIM) if entry.why_not else (Style.KEY, Style.NORMAL)
    head = key(f"   {pad(_keys(shown(entry.keys), keys), keys)}")
    return [
        fitted(width, head, style(f"  {parts[0]}")),
        *(plain(f"{' ' * (keys + 5)}{part}", width, style) for part in parts[1:]),
    ]


def sections(context: CommandContext, *, mouse: bool) -> dict[str, list[HelpEntry]]:
    """The table's help of one view, as sections to draw; ``mouse``: the mouse is on."""
    commands = {title: [HelpEntry(*entry) for entry in entries] for title, entries in help_entries(context).items() if entries}
    # a view that this kind of queue does not have needs no legend
    legend = {title: signs for title, signs in LEGEND.items() if title.lower() not in context.absent}
    signs = (MOUSE if mouse else {}) | legend
    return commands | {title: [HelpEntry(*sign) for sign in words.items()] for title, words in signs.items()}


class HelpScreen(TextScreen[None]):
    """``about`` gives the context of the screen that help was asked from, which changes while help is shown: lists are read."""

    FIXED_LINES = 2

    def __init__(self, session: AppSession, about: Callable[[], CommandContext]) -> None:
        super().__init__(session)
        self.about = about

    def context(self) -> CommandContext:
        return CommandContext(View.HELP, snapshot=self.about().snapshot, depth=1, rows=1)

    def take(self, found: Found) -> None:
        """Says what is available now."""
        self.paint()

    def bottom_lines(self) -> Lines:
        return super().bottom_lines() if self.message else []

    def text(self, width: int) -> Lines:
        return draw_help(sections(self.about(), mouse=self.session.options.mouse), width)

    def draw(self, width: int, height: int) -> Lines:
        return fit(super().draw(width, height), width, height)

    def typed(self, event: Key) -> bool:
        if super().typed(event):
            return True
        if event.key in ("question_mark", "f1"):
            self.dismiss(None)
            return True
        return False
