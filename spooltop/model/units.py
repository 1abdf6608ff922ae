"""Formats and parses numbers, the same in the dashboard and on the command line. Pure.

An unknown value is ``—`` (nothing there) or ``?`` (not visible), never 0. Ages change in steps, so an idle screen stays still.
"""

from __future__ import annotations

import math
import re
import time
from datetime import tzinfo
from typing import Literal

from spooltop.errors import UsageError

MINUTE = 60.0
HOUR = 3600.0
DAY = 86400.0
_YEAR = 365 * DAY
_SECONDS = {"": 1.0, "s": 1.0, "m": MINUTE, "h": HOUR, "d": DAY, "w": 7 * DAY}
_PER = {"": 1.0, "s": 1.0, "m": MINUTE, "min": MINUTE, "h": HOUR}
_AGE_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?|\.[0-9]+)([smhdw]?)")
_AGE = re.compile(rf"(?:{_AGE_PART.pattern})+")


def _long(seconds: float) -> str:
    """Formats a time of a minute or more in at most 4 cells: whole units, rounded down."""
    if seconds < HOUR:
        return f"{int(seconds // MINUTE)}m"
    if seconds < 2 * DAY:
        return f"{int(seconds // HOUR)}h"
    if seconds < 1000 * DAY:
        return f"{int(seconds // DAY)}d"
    return f"{int(min(seconds, 999 * _YEAR) // _YEAR)}y"


def since(at: float | None, now: float) -> float | None:
    """Seconds from ``at`` to ``now``, never negative; None where ``at`` is not known."""
    return None if at is None else max(0.0, now - at)


def age(seconds: float | None) -> str:
    """Formats an age in at most 4 cells: seconds below 10 s, then steps of 10 s below a minute, then minutes. ``—`` for None.

    Every age is rounded here, bounds included, so that one age reads the same wherever it is shown.

    >>> [age(s) for s in (0, 9.9, 42, 61, 7199, 90000, 300000, None)]
    ['0s', '9s', '40s', '1m', '1h', '25h', '3d', '—']
    """
    if seconds is None or math.isnan(seconds):
        return "—"
    if seconds < 10:
        return f"{max(0, int(seconds))}s"
    if seconds < MINUTE:
        return f"{int(seconds // 10) * 10}s"
    return _long(seconds)


def at_most(seconds: float | None) -> str:
    """Formats an age that is an upper bound, in at most 5 cells, rounded like every age. ``—`` for None.

    >>> [at_most(s) for s in (0.4, 3, 42, 2461, None)]
    ['≤1s', '≤3s', '≤40s', '≤41m', '—']
    """
    if seconds is None or not math.isfinite(seconds):
        return "—"
    return "≤" + age(max(1.0, seconds))


def at_least(seconds: float | None) -> str:
    """Formats an age that is a lower bound, in at most 5 cells. ``—`` for None.

    >>> [at_least(s) for s in (3, 42, 900, None)]
    ['≥3s', '≥40s', '≥15m', '—']
    """
    shown = age(seconds)
    return shown if shown == "—" else "≥" + shown


def duration(seconds: float | None) -> str:
    """Formats a measured time in at most 4 cells. ``—`` for None.

    >>> [duration(s) for s in (0.0001, 0.012, 0.1, 9.96, 59.9, 425)]
    ['<1ms', '12ms', '0.1s', '10s', '1m', '7m']
    """
    if seconds is None or math.isnan(seconds):
        return "—"
    if seconds < 0.001:
        return "<1ms"
    if seconds < 0.0995:
        return f"{seconds * 1000:.0f}ms"
    if seconds < 9.95:
        return f"{seconds:.1f}s"
    if seconds < 59.5:
        return f"{seconds:.0f}s"
    return _long(max(seconds, MINUTE))


def interval(seconds: float | None) -> str:
    """Formats the interval between recurring events in at most 4 cells: whole seconds below two minutes. ``—`` for None.

    >>> [interval(s) for s in (0.4, 2.2, 60.3, 660, None)]
    ['<1s', '2s', '60s', '11m', '—']
    """
    if seconds is None or math.isnan(seconds):
        return "—"
    if seconds < 0.5:
        return "<1s"
    return f"{seconds:.0f}s" if seconds < 119.5 else _long(seconds)


def span(seconds: float | None) -> str:
    """Formats the time that something was watched, with two units.

    >>> [span(s) for s in (0, 12, 312, 7500, 200000)]
    ['0s', '12s', '5m12s', '2h05m', '2d07h']
    """
    if seconds is None or not math.isfinite(seconds):
        return "—"
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02}s"
    if whole < 86400:
        return f"{whole // 3600}h{whole % 3600 // 60:02}m"
    return f"{whole // 86400}d{whole % 86400 // 3600:02}h"


def size(bytes: int | None) -> str:
    """Formats bytes in powers of 1000, at most 6 cells. ``?`` for None.

    >>> [size(n) for n in (0, 512, 4100, 12_300_000, 1_900_000_000, 999_999, None)]
    ['0B', '512B', '4.1kB', '12MB', '1.9GB', '1.0MB', '?']
    """
    if bytes is None:
        return "?"
    if bytes < 1000:
        return f"{max(0, bytes)}B"
    value = float(bytes)
    for unit in ("kB", "MB", "GB", "TB", "PB", "EB"):
        value /= 1000
        if value < 9.95:
            return f"{value:.1f}{unit}"
        if value < 999.5:
            return f"{value:.0f}{unit}"
    return ">999EB"


def count(n: int | None, *, complete: bool = True) -> str:
    """Formats a number with grouped thousands; ``≥`` in front of a lower bound; ``?`` for None.

    >>> count(4310), count(310000, complete=False), count(None)
    ('4,310', '≥310,000', '?')
    """
    if n is None:
        return "?"
    return f"{n:,}" if complete else f"≥{n:,}"


def rate(per_s: float | None, *, signed: bool = False) -> str:
    """Formats a rate per second; ``—`` for None.

    >>> rate(11.93), rate(1.8, signed=True), rate(-2500, signed=True), rate(0.01), rate(0)
    ('11.9/s', '+1.8/s', '-2,500/s', '<0.1/s', '0.0/s')
    """
    if per_s is None or not math.isfinite(per_s):
        return "—"
    if abs(per_s) >= 99.95:
        return f"{per_s:+,.0f}/s" if signed else f"{per_s:,.0f}/s"
    if abs(per_s) < 0.05:
        return "0.0/s" if signed or per_s == 0 else "<0.1/s"
    return f"{per_s:+.1f}/s" if signed else f"{per_s:.1f}/s"


def percent(part: float | None, whole: float | None) -> str:
    """Formats a share in at most 4 cells. 0 % and 100 % mean exactly none and all; ``?`` if not known.

    >>> percent(41, 100), percent(1, 1000), percent(999, 1000), percent(0, 7), percent(None, 7)
    ('41%', '<1%', '>99%', '0%', '?')
    """
    if part is None or whole is None or whole <= 0:
        return "?"
    share = 100 * part / whole
    if 0 < share < 1:
        return "<1%"
    if 99 < share < 100:
        return ">99%"
    return f"{share:.0f}%"


def clock_time(epoch: float | None, tz: tzinfo | None = None, *, offset: bool = True) -> str:
    """Formats the time of day in ``tz`` (None: local), with the offset from UTC. ``—`` for None or a time outside the calendar.

    >>> from datetime import timedelta, timezone
    >>> clock_time(1_795_222_869, timezone(timedelta(hours=1)))
    '02:01:09 +0100'
    """
    if epoch is None:
        return "—"
    wanted = "%H:%M:%S %z" if offset else "%H:%M:%S"
    try:
        if tz is None:
            local = time.localtime(epoch)
            return time.strftime(wanted, local) if 0 < local.tm_year < 10_000 else "—"
        from datetime import datetime  # the module takes 2 ms to load

        return datetime.fromtimestamp(epoch, tz).strftime(wanted)
    except (ValueError, OverflowError, OSError):
        return "—"


def parse_age(text: str) -> float:
    """Parses ``90``, ``10m``, ``1.5d``, ``1h30m`` into seconds. Raises ``UsageError``.

    >>> parse_age("10m"), parse_age("90"), parse_age("1.5d"), parse_age("1h30m")
    (600.0, 90.0, 129600.0, 5400.0)
    """
    if _AGE.fullmatch(text):
        parts = _AGE_PART.findall(text)
        total = sum(float(number) * _SECONDS[unit] for number, unit in parts)
        # a number without a unit says seconds only where it stands alone: "1h30" is not a half minute past one for everybody
        if math.isfinite(total) and (len(parts) == 1 or all(unit for _, unit in parts)):
            return total
    raise UsageError(f"invalid duration {text!r}: use 90, 10m, 2h or 1d")


def parse_rate(text: str) -> float:
    """Parses ``50``, ``50/s``, ``1000/m``, ``10/h`` into items a second. Raises ``UsageError``.

    >>> parse_rate("50"), parse_rate("0.5/s"), parse_rate("1200/m")
    (50.0, 0.5, 20.0)
    """
    number, slash, unit = text.partition("/")
    try:
        found = float(number) / _PER[unit if slash else ""]
    except (ValueError, KeyError):
        found = 0.0
    if not 0 < found <= 1e9:
        raise UsageError(f"invalid rate {text!r}: use 50/s or 1000/m, above 0")
    return found


def rate_limit(rate: float) -> str:
    """Formats a configured rate.

    >>> rate_limit(50), rate_limit(1200.0), rate_limit(1000 / 60), rate_limit(0.25)
    ('50/s', '1,200/s', '16.7/s', '0.25/s')
    """
    return f"{rate:,.0f}/s" if rate == int(rate) else f"{rate:.3g}/s"


def _width(char: str) -> int:
    """Cells of one character, as the dashboard's toolkit counts them too: a test compares the two."""
    if char.isascii():
        return 1 if char.isprintable() else 0
    import unicodedata  # only for those who have such names

    if unicodedata.category(char) in _MARKS or "\u1160" <= char <= "\u11ff" or "\ud7b0" <= char <= "\ud7fb":
        return 0  # also vowels and final consonants of Hangul, which join the syllable before them (UAX #29)
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


_MARKS = frozenset(("Mn", "Me", "Mc", "Cf", "Cc", "Cs"))


def cells(text: str) -> int:
    """Counts the terminal cells of ``text``; wide characters take two, combining ones none (UAX #11).

    >>> cells("abc"), cells("日本")
    (3, 4)
    """
    return len(text) if text.isascii() and text.isprintable() else sum(map(_width, text))


def fit(
    text: str,
    width: int,
    align: Literal["left", "right"] = "left",
    *,
    cut: Literal["left", "right"] = "left",
    mark: str = "…",
) -> str:
    """Fits ``text`` into exactly ``width`` cells: padded, or cut at the left (names differ at their ends) with ``mark`` in place
    of the cut.

    >>> fit("1795222801446548", 8), fit("abc", 5, "right"), fit("no room", 5, cut="right"), fit("日本", 3)
    ('…1446548', '  abc', 'no r…', '…本')
    """
    if width <= 0:
        return ""
    have = cells(text)
    if have > width:
        room = width - cells(mark)
        if room < 0:
            mark, room = "", width
        kept = _tail(text, room) if cut == "left" else _head(text, room)
        text = mark + kept if cut == "left" else kept + mark
        have = cells(text)
    pad = " " * (width - have)
    return text + pad if align == "left" else pad + text


def _head(text: str, room: int) -> str:
    for at, char in enumerate(text):
        room -= _width(char)
        if room < 0:
            return text[:at]
    return text


def _tail(text: str, room: int) -> str:
    start = len(text)
    for at in range(len(text) - 1, -1, -1):
        wide = _width(text[at])
        room -= wide
        if room < 0:
            break
        if wide:  # a combining sign is kept only with the character that it belongs to
            start = at
    return text[start:]
