"""Commands for cursors: list them, set one, mute one."""

from __future__ import annotations

from spooltop.cli.commands.change import change
from spooltop.cli.commands.status import watched
from spooltop.cli.context import Arguments, answered, here_or
from spooltop.cli.render import as_text
from spooltop.control import Control
from spooltop.cursors.model import parse_value
from spooltop.model import Action, Json, Selection, UsageError, escape, parse_age, unescape

from .render import cursor_lines, cursors_json

MUTED_FOR = "1h"


def cursors(args: Arguments) -> int:
    args.path = here_or(args)
    asked = [name for name in ("set", "mute", "unmute") if getattr(args, name) is not None]
    if len(asked) > 1:
        raise UsageError(f"--{asked[0]} and --{asked[1]} together", "one at a time")
    if args.set is None and (args.file or args.type or args.force or args.yes or args.dry_run):
        raise UsageError("--file, --type, --force, --yes and --dry-run go with --set", "--set SOURCE=VALUE")
    if asked and args.watch is not None:
        raise UsageError(f"--watch and --{asked[0]} together", "one at a time")
    if asked:
        return {"set": _set, "mute": _mute, "unmute": _unmute}[asked[0]](args)
    snapshot = answered(watched(args, args.path, progress=True), args.path)
    lines = cursor_lines(snapshot) if snapshot.cursors else ["no cursors here"]
    args.terminal.show(cursors_json(snapshot), lines)
    return 0


def _set(args: Arguments) -> int:
    name, equals, text = args.set.partition("=")
    if not equals or not name:
        raise UsageError(f"--set {args.set!r} is not SOURCE=VALUE", "as in --set imessage=89640")
    source = _source(name)
    file = None if args.file is None else _unescaped(args.file)
    with args.control() as control:
        value, words = _value(control, source, file, text, args.type)
        options: dict[str, Json] = {"source": source, "value": value}
        if file is not None:
            options["file"] = file
        if args.type:
            options["type"] = args.type
        return change(control, Action.SET_CURSOR, Selection(), args, options, said=f"the value is {words}")


def _value(control: Control, source: str, file: str | None, text: str, kind: str) -> tuple[Json, str]:
    cursors = answered(control.look(), control.target).cursors
    found = [one for one in cursors if one.source == source and file in (None, one.file, one.file.rpartition("/")[2])]
    try:
        read = parse_value(text, found[0].value if found else None, kind, found[0].field if found else None)
    except ValueError:
        raise UsageError(f"{text!r} is not JSON", "a text is given with --type text, or in double quotes") from None
    return read.value, read.words


def _mute(args: Arguments) -> int:
    name, equals, age = args.mute.rpartition("=")
    if not equals:
        name, age = args.mute, MUTED_FOR
    source, seconds = _source(name), parse_age(age)
    with args.control() as control:
        known = [cursor.source for cursor in answered(control.look(), control.target).cursors]
        if source not in known:
            there = ", ".join(map(escape, known)) or "none"
            args.terminal.error(f"no source is called {escape(source)}; there are: {there}")
            return 4
        end = control.mute(source, seconds)
    said = f"{escape(source)} is muted until {as_text.date(end)}"
    args.terminal.show([{"source": escape(source), "muted_until": end}], [said])
    return 0


def _unmute(args: Arguments) -> int:
    source = _source(args.unmute)
    with args.control() as control:
        ended = control.unmute(source)
    thing = {"source": escape(source), "muted_until": None, "was_muted": ended}
    args.terminal.show([thing], [f"{escape(source)} is no longer muted"] if ended else [])
    if not ended:
        args.terminal.error(f"{escape(source)} was not muted here; spooltop status says what is")
        return 4
    return 0


def _source(name: str) -> str:
    if not name:
        raise UsageError("which source?", "name it as spooltop cursors lists it")
    return _unescaped(name)


def _unescaped(word: str) -> str:
    try:
        return unescape(word)
    except ValueError:
        raise UsageError(f"{word!r} is not written as it is shown", r"a backslash is \\, other bytes \xNN") from None
