"""``config show``: each setting, its value, and where it is set."""

from __future__ import annotations

import os
import re

from spooltop.model import escape
from spooltop.observe.thresholds import PREFIX, Thresholds
from spooltop.settings import NAMES, SECRET, Settings, files_of, load, why_not_read

from ..context import Arguments

_NONE = "—"
_SECRETS = r"(?<=://)\S*@|(?<=\?)[^#\s]+"
"""The user and password of a URL, and its options, among which a password may be too."""


def config(args: Arguments) -> int:
    """Prints all settings, also those that have their defaults. A value that makes no sense is a ``UsageError``, as for every
    command that uses it."""
    environ = args.terminal.environ
    found = load(environ)
    with found.blaming():
        defaults, limits = Thresholds(), Thresholds.from_settings(found.words)
    durations = {name for name, kind in Thresholds.__annotations__.items() if kind != "int"}
    _ = found.claims_hosts, found.claims_pids, found.syslog, found.mouse  # these raise where they make no sense
    rows = [
        (name, _value(name, found, limits if name in found.origins else defaults, durations), found.origins.get(name, "default"))
        for name in NAMES
    ]
    if args.json:
        for name, value, origin in rows:
            args.terminal.out_json({"name": name, "value": value, "origin": origin})
        return 0
    for path in files_of(environ):
        why = why_not_read(path)
        args.terminal.out(f"{escape(path)}: {f'not read: {why}' if why else 'read' if os.path.exists(path) else 'not there'}")
    args.terminal.out("")
    widths = [max(len(row[place] or _NONE) for row in rows) for place in (0, 1)]
    for name, value, origin in rows:
        args.terminal.out(f"{name:<{widths[0]}}  {value or _NONE:<{widths[1]}}  {origin}")
    return 0


def _value(name: str, found: Settings, limits: Thresholds, durations: set[str]) -> str | None:
    """The value as a settings file takes it; None: not set, and without a default."""
    if hasattr(limits, name):
        number = getattr(limits, name)
        return _duration(number) if name in durations else str(number)
    text = found.words.get(PREFIX + name.upper())
    if name == SECRET and text:
        return "…"
    return None if text is None else escape(re.sub(_SECRETS, lambda found: "…@" if found[0].endswith("@") else "…", text))


def _duration(seconds: float) -> str:
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds and seconds % size == 0:
            return f"{seconds / size:g}{unit}"
    return f"{seconds:g}s"
