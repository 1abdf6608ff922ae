"""Reads a layout from TOML and checks all of it. An error names the file, the line and the reason."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from spooltop.errors import UsageError
from spooltop.model.text import escape
from spooltop.model.toml import parse_toml
from spooltop.model.units import parse_age
from spooltop.model.vocabulary import Action

from .filling import Filling
from .layout import (
    BOXES,
    CrossCheck,
    Fact,
    FileCondition,
    Layout,
    LayoutAction,
    LockRule,
    Match,
    ProblemRule,
    Sign,
    Step,
    VerdictRule,
)
from .moves import lost_move, release_of
from .templates import InvalidTemplate, Template
from .toml_lines import Lines
from .units import DOMAIN, UNITS

__all__ = ["parse_layout"]

T = TypeVar("T")

FACTS = ("enqueued_at", "since", "not_before", "expires", "attempts", "max_attempts", "reason", "source")
VERBS = {"rename": 2, "link": 2, "unlink": 1, "rmdir": 1, "mkdir": 1, "write": 2, "trash": 1, "held": 1, "poke": 1, "touch": 1}
"""The steps of actions, and the number of words of each; the last word of ``write`` is the text."""
ACTIONS = ("requeue", "purge", "hold")
COMMANDS = ("requeue", "purge", "hold", "release")
CODES = ("conflict", "lock-stale", "failing")
_MANY = 64
"""Maximum number of entries of a list: each may be tried with every name of the queue."""
_JSON = re.compile(r"([A-Za-z_][A-Za-z0-9_.]*)(?:\+([0-9]+))?\Z")


def parse_layout(file: str, text: str) -> Layout:
    """Reads a layout. ``file`` is only named in errors. Raises ``UsageError``."""
    try:
        values = parse_toml(text)
    except (ValueError, RecursionError) as error:
        found = re.search(r"(.*?) \(at line (\d+), column \d+\)", str(error))
        line, why = (int(found[2]), found[1]) if found else (1, str(error))
        raise _error(file, line, f"not valid TOML: {why}") from None
    return _layout(_Table(file, values, Lines.of(text), ()))


def _error(file: str, line: int, why: str) -> UsageError:
    return UsageError(_at_line(file, line, why), advice="mend it; spooltop layouts shows those that load")


def _at_line(file: str, line: int, why: str) -> str:
    return f"{escape(file)}: line {line}: {escape(why)}"


class _Table:
    """A table of the file whose members are taken one by one; what is left at the end is unknown. ``warnings`` are those of the
    whole file."""

    def __init__(
        self, file: str, values: dict[str, Any], lines: Lines, place: tuple[str | int, ...], warnings: list[str] | None = None
    ) -> None:
        self.file = file
        self.values = dict(values)
        self.lines = lines
        self.place = place
        self.known: list[str] = []
        self.warnings = [] if warnings is None else warnings

    def wrong(self, name: str, why: str) -> UsageError:
        return _error(self.file, self.lines.line((*self.place, name)), why)

    def warn(self, name: str, why: str) -> None:
        self.warnings.append(_at_line(self.file, self.lines.line((*self.place, name)), why))

    def part(self, values: dict[str, Any], *place: str | int) -> _Table:
        """A table in this one."""
        return _Table(self.file, values, self.lines, (*self.place, *place), self.warnings)

    def take(self, name: str, kind: type[T], default: T) -> T:
        """Takes a member; ``default`` where there is none."""
        self.known.append(name)
        value = self.values.pop(name, default)
        if not isinstance(value, kind):
            words = {str: "a text", bool: "true or false", list: "a list", dict: "a table"}[kind]
            raise self.wrong(name, f"{name} must be {words}")
        if isinstance(value, str) and not value.isprintable():
            raise self.wrong(name, f"{name} has characters that are not printable")
        if isinstance(value, (list, dict)) and len(value) > _MANY:
            raise self.wrong(name, f"{name} has {len(value)} entries; there may be {_MANY}")
        return value

    def need(self, name: str) -> str:
        """Takes a text that must be there and not be empty."""
        value = self.take(name, str, "")
        if not value:
            raise self.wrong(name, f"{name} is missing")
        return value

    def texts(self, name: str) -> list[str]:
        """Takes a list of texts."""
        value: list[object] = self.take(name, list, [])
        if not all(isinstance(one, str) for one in value):
            raise self.wrong(name, f"{name} must be a list of texts")
        return [str(one) for one in value]

    def some(self, name: str) -> list[str]:
        """Takes a text, or a list of texts."""
        if isinstance(one := self.values.get(name), str):
            self.take(name, str, "")
            return [one]
        return self.texts(name)

    def parsed(self, name: str, parse: Callable[[str], T], text: str) -> T:
        """Parses the text of a member; an invalid template or age is an error of its line."""
        try:
            return parse(text)
        except (InvalidTemplate, UsageError) as error:
            raise self.wrong(name, f"{name} = {text!r}: {error}") from None

    def one_of(self, name: str, text: str, allowed: Iterable[str]) -> str:
        if text not in allowed:
            raise self.wrong(name, f"{name} = {text!r}: there are {', '.join(allowed)}")
        return text

    def table(self, name: str) -> _Table:
        return self.part(self.take(name, dict, {}), name)

    def tables(self, name: str) -> list[_Table]:
        """Takes an array of tables."""
        value: list[object] = self.take(name, list, [])
        if not all(isinstance(one, dict) for one in value):
            raise self.wrong(name, f"{name} is written [[{name}]]")
        return [self.part(dict(one), name, i) for i, one in enumerate(value)]  # type: ignore[call-overload]

    def done(self) -> None:
        """Raises for a member that nothing took."""
        for name in self.values:
            near = difflib.get_close_matches(name, self.known, 1)
            advice = f"did you mean {near[0]}?" if near else f"there are {', '.join(self.known)}"
            raise self.wrong(name, f"unknown key {name}; {advice}")


def _layout(top: _Table) -> Layout:
    name = top.need("name")
    detect = tuple(_sign(top, text) for text in top.texts("detect"))
    needs = top.some("needs_any")
    if not needs and all(sign.optional for sign in detect):
        raise top.wrong("detect", "detect needs at least one name that must be there, or needs_any a path")
    matches = tuple(_match(table) for table in top.tables("match"))
    if not matches:
        raise top.wrong("match", "there is no [[match]]: nothing would be a message")
    watched = _place(top, "watched", top.take("watched", str, ""))
    lock = top.take("lock", str, "")
    if lock and not lock.startswith("flock:"):
        raise top.wrong("lock", "lock is written flock:PATH")
    lock = _place(top, "lock", lock.removeprefix("flock:"))
    side_dir = top.take("side_dir", str, ".spooltop")
    if side_dir == "../{root}" or not re.fullmatch(
        r"\.[A-Za-z0-9_-]+|\.\./\.?[A-Za-z0-9_.-]*\{root\}[A-Za-z0-9_.-]*", side_dir
    ):
        where = "a name in the directory that begins with a dot, or beside it: ../ and a name with {root}"
        raise top.wrong("side_dir", f"side_dir = {side_dir!r}: {where}")
    blind = top.table("blind")
    blinds = {box: blind.take(box, str, "") for box in BOXES if box in blind.values}
    blind.known += BOXES
    blind.done()
    actions = [_action(table, matches) for table in top.tables("action")]
    if isinstance(release := release_of(actions, matches), LayoutAction):
        actions.append(release)
    elif release is not None:
        top.warn("action", release)
    layout = Layout(
        name=name, file=top.file, detect=detect, matches=matches, lock=lock, watched=watched,
        needs_any=tuple(top.parsed("needs_any", Template.parse, text) for text in needs), side_dir=side_dir, blind=blinds,
        read_only=top.take("read_only", str, ""), checks=tuple(_check(table) for table in top.tables("cross_check")),
        problems=tuple(_problem(table, matches) for table in top.tables("problem")), locks=_locks(top.table("locks")),
        actions=tuple(actions), commands=_commands(top.table("commands")), warnings=tuple(top.warnings),
        claim_long=top.parsed("claim_long", parse_age, text) if (text := top.take("claim_long", str, "")) else None,
    )  # fmt: skip
    if any(match.verdict is not None and match.verdict.watched for match in matches) and not watched:
        raise top.wrong("watched", 'a verdict has else = "watched", but watched names no directory')
    if layout.read_only and layout.actions:
        raise top.wrong("read_only", "a layout that is read-only has no [[action]]")
    top.done()
    return layout


def _place(table: _Table, name: str, text: str) -> str:
    """Checks the path of a file that the whole queue has; it has no pieces."""
    if not text:
        return ""
    template = table.parsed(name, Template.parse, text.removesuffix("/"))
    if template.types or "*" in text:
        raise table.wrong(name, f"{name} = {text!r}: one file, without pieces and *")
    return text.removesuffix("/")


def _sign(top: _Table, text: str) -> Sign:
    return Sign(top.parsed("detect", Template.parse, text.removeprefix("?")), text.startswith("?"))


def _match(table: _Table) -> Match:
    box = table.one_of("box", table.need("box"), BOXES)
    template = table.parsed("path", Template.parse, table.need("path"))
    pieces = tuple(template.types)
    if template.types.get("pid", "int") != "int":
        raise table.wrong("path", "path: the piece called pid is that of a process: {pid:int}")
    when = table.take("when", str, "")
    facts = table.table("metadata")
    found = {name: _fact(facts, name, facts.take(name, str, ""), template) for name in FACTS if name in facts.values}
    facts.known += FACTS
    facts.done()
    if "enqueued_at" not in found and template.types.get("put") in UNITS:
        found["enqueued_at"] = Fact("name", "put", unit=template.types["put"])
    if box == "new" and "enqueued_at" not in found:
        table.warn("path", f"{template.text} says no time of the put, so that of the file (mtime) counts: name enqueued_at")
        found["enqueued_at"] = Fact("mtime")
    order = table.take("order", str, "")
    if order:
        table.one_of("order", order, ("name", *pieces))
    verdict = table.table("verdict")
    match = Match(
        box, template, _condition(table, when, pieces) if when else None, found,
        _verdict(verdict, template) if verdict.values else None, order, table.take("note_if_locked", str, ""),
    )  # fmt: skip
    table.done()
    return match


def _condition(table: _Table, text: str, pieces: tuple[str, ...]) -> FileCondition:
    kind, _, path = text.partition(":")
    if text == "mode:x":
        return FileCondition("mode")
    if kind == "tail" and path:
        return FileCondition(kind, text=table.parsed("when", Template.of_text, path))
    if kind not in ("exists", "flock") or not path:
        raise table.wrong("when", f"when = {text!r}: write exists:PATH, flock:PATH, tail:TEXT or mode:x")
    return FileCondition(kind, table.parsed("when", lambda one: Filling.path(one, pieces), path))


def _fact(table: _Table, name: str, text: str, template: Template) -> Fact:
    kind, _, rest = text.partition(":")
    pieces = tuple(template.types)

    def filled(path: str) -> Filling:
        return table.parsed(name, lambda one: Filling.path(one, pieces), path)

    if text in pieces:
        if template.types[text] not in UNITS:
            raise table.wrong(name, f"{name}: the type of {{{text}}} is no time; write name:{text}:UNIT, or give it a type")
        return Fact("name", text, unit=template.types[text])
    if kind in ("mtime", "ctime"):
        return Fact(kind, path=filled(rest) if rest else None)
    if kind == "json":
        member, _, unit = rest.partition(":")
        found = _JSON.match(member)
        if found is None:
            raise table.wrong(name, f"{name} = {text!r}: write json:MEMBER, json:MEMBER+1 or json:MEMBER:UNIT")
        return Fact("json", found[1], unit=_unit(table, name, unit), plus=int(found[2] or 0))
    if kind == "file":
        path, _, unit = rest.rpartition(":")
        return Fact("file", path=filled(path or unit), unit=_unit(table, name, unit if path else ""))
    if kind == "tail" or kind.startswith("tail@"):
        other = kind.removeprefix("tail").removeprefix("@")
        return Fact("tail", path=filled(other) if other else None, text=table.parsed(name, Template.of_text, rest))
    if kind == "record":
        letter, _, unit = rest.partition(":")
        if len(letter) != 1 or not letter.isascii() or not letter.isalpha():
            raise table.wrong(name, f"{name} = {text!r}: write record:LETTER or record:LETTER:UNIT")
        return Fact("record", letter, unit=unit and table.one_of(name, unit, (*UNITS, DOMAIN)))
    if kind == "name":
        piece, _, unit = rest.partition(":")
        return Fact("name", table.one_of(name, piece, pieces), unit=_unit(table, name, unit))
    raise table.wrong(name, f"{name} = {text!r}: write mtime, ctime, json:, file:, tail:, record:, name: or a piece of the path")


def _unit(table: _Table, name: str, unit: str) -> str:
    return unit and table.one_of(name, unit, UNITS)


def _verdict(table: _Table, template: Template) -> VerdictRule:
    pieces = tuple(template.types)

    def path(name: str, text: str) -> Filling | None:
        return table.parsed(name, lambda one: Filling.path(one, pieces), text) if text else None

    lease, _, unit = table.take("lease", str, "").rpartition(":")
    pid = table.take("pid", str, "")
    if pid and template.types[table.one_of("pid", pid, pieces)] != "int":
        raise table.wrong("pid", f"pid: {{{pid}}} is no number: give it the type int")
    proves, otherwise = table.take("proves", str, ""), table.take("else", str, "")
    rule = VerdictRule(
        path("flock", table.take("flock", str, "")), pid, _place(table, "pidfile", table.take("pidfile", str, "")),
        path("lease", lease or unit), _unit(table, "lease", unit if lease else ""), path("open", table.take("open", str, "")),
        bool(proves and table.one_of("proves", proves, ("nothing",))),
        bool(otherwise and table.one_of("else", otherwise, ("watched",))),
    )  # fmt: skip
    table.done()
    return rule


def _check(table: _Table) -> CrossCheck:
    template = table.parsed("path", Template.parse, table.need("path"))
    if "id" not in template.types:
        raise table.wrong("path", "the path of a cross_check needs {id}, the message that it tells of")
    says = tuple(table.parsed("says", Template.of_text, text) for text in table.texts("says"))
    if not says or not all("state" in one.types for one in says):
        raise table.wrong("says", "says lists the texts of the file, each with {state}")
    wanted = table.table("wants")
    wants = {}
    for state in list(wanted.values):
        wants[state] = tuple(wanted.one_of(state, box, BOXES) for box in wanted.texts(state))
    check = CrossCheck(template, says, wants, table.need("missing"), table.take("without", str, ""))
    table.done()
    return check


def _problem(table: _Table, matches: Sequence[Match]) -> ProblemRule:
    code = table.one_of("code", table.need("code"), CODES)
    when, text = table.need("when"), table.need("text")
    kind, _, rest = when.partition(":")
    pieces = {piece: kind for match in matches for piece, kind in match.template.types.items()}
    if kind == "same":
        rule = ProblemRule(code, text, same=table.one_of("when", rest, pieces))
    elif kind == "alone":
        path, _, beside = rest.partition(" without ")
        template = table.parsed("when", Template.parse, path)
        if not beside:
            raise table.wrong("when", f"when = {when!r}: write alone:PATH without PATH")
        message = table.parsed("when", lambda one: Filling.path(one, tuple(template.types)), beside)
        rule = ProblemRule(code, text, alone=template, beside=message)
    else:
        raise table.wrong("when", f"when = {when!r}: write same:PIECE or alone:PATH without PATH")
    table.done()
    return rule


def _locks(table: _Table) -> tuple[LockRule, ...]:
    rules = []
    for path in list(table.values):
        table.parsed(path, Filling.path, path)
        one = table.table(path)
        empty = Template.parse("lock")
        facts = {
            name: _fact(one, name, text, empty) for name in ("holder", "until") if (text := one.take(name, str, ""))
        }
        rules.append(LockRule(path, one.one_of("kind", one.need("kind"), ("lease", "pid")), **facts))
        one.done()
    return tuple(rules)


def _commands(table: _Table) -> dict[Action, str]:
    commands = {}
    for name in list(table.values):
        action = Action(table.one_of(name, name, COMMANDS))
        text = table.need(name)
        if "{id}" not in text or not text.isprintable() or set(text.replace("{id}", "")) & {*"{}'\""}:
            raise table.wrong(name, f"{name} = {text!r}: a command with {{id}} for the message, no other piece, and no quotes")
        commands[action] = text
    table.done()
    return commands


def _action(table: _Table, matches: Sequence[Match]) -> LayoutAction:
    name = table.one_of("name", table.need("name"), ACTIONS)
    boxes = tuple(table.one_of("from", box, BOXES) for box in table.need("from").split())
    of = [match for match in matches if match.box in boxes]
    for box in boxes:
        if not any(match.box == box for match in of):
            raise table.wrong("from", f"no [[match]] puts a message into {box}")
    common = set.intersection(*({*match.template.types} for match in of))
    everywhere = tuple(sorted({piece for match in matches for piece in match.template.types}))
    steps = tuple(_step(table, text, tuple(sorted(common)), everywhere) for text in table.texts("steps"))
    if not steps:
        raise table.wrong("steps", "an action needs steps")
    needs = table.take("needs", str, "")
    action = LayoutAction(
        name, boxes, steps, bool(needs and table.one_of("needs", needs, ("dead",))), table.take("force", bool, False),
        table.take("note", str, ""), table.take("effect", str, ""),
    )  # fmt: skip
    table.done()
    if name != "purge" and (text := lost_move(action, matches)):
        raise table.wrong("steps", text)
    return action


def _step(table: _Table, text: str, pieces: tuple[str, ...], everywhere: tuple[str, ...]) -> Step:
    verb, *words = text.split(" ")
    table.one_of("steps", verb, VERBS)
    if len(words) != VERBS[verb]:
        raise table.wrong("steps", f"{text!r}: {verb} takes {VERBS[verb]} word{'s' if VERBS[verb] > 1 else ''}")

    def filled(place: int, word: str) -> Filling:
        # A piece that the message lacks may be the next number of its kind: {seq:next:012}.
        known = everywhere if ":next" in word else pieces
        is_text = verb == "write" and place == 1
        return table.parsed("steps", lambda one: (Filling.parse if is_text else Filling.path)(one, known), word)

    return Step(verb, tuple(filled(place, word) for place, word in enumerate(words)))
