"""Draws the help: the keys of a view."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from .elements.spans import BLANK, Line, Span, Style, clip, crop, join, line_width, merge, pad, plain, shown, text_width, wrap

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


def help_lines(sections: Sequence[HelpSection], width: int, height: int, *, scroll: int = 0) -> list[Line]:
    """At most ``height`` lines from ``scroll`` on, in two columns where they fit. Commands that are not available are dim and say
    why."""
    every = [text_width(entry.keys) for section in sections for entry in section.entries]
    keys = min(max(every, default=0), 18, max(8, width // 4))
    lines: list[Line] = []
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


def _entries(entries: Sequence[HelpEntry], keys: int, width: int) -> list[Line]:
    half = width // 2
    lines: list[Line] = []
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
            lines.append(crop(join(waiting, " " * (half - line_width(waiting)), short), width))
            waiting = None
    if waiting is not None:
        lines.append(waiting)
    return lines


def _entry(entry: HelpEntry, keys: int) -> Line:
    if entry.why_not:
        return (Span(f"   {pad(_keys(shown(entry.keys), keys), keys)}  {_words(entry)}", Style.DIM),)
    return merge((Span(f"   {pad(_keys(shown(entry.keys), keys), keys)}", Style.KEY), Span(f"  {shown(entry.words)}")))


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


def _long(entry: HelpEntry, keys: int, width: int) -> list[Line]:
    parts = wrap(_words(entry), max(8, width - keys - 6))
    style = Style.DIM if entry.why_not else Style.NORMAL
    first = join(Span(f"   {pad(_keys(shown(entry.keys), keys), keys)}", Style.DIM if entry.why_not else Style.KEY))
    lines = [crop(join(first, Span(f"  {parts[0]}", style)), width)]
    lines += [plain(f"{' ' * (keys + 5)}{part}", width, style) for part in parts[1:]]
    return lines
