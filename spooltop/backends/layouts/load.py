"""The line of each key of a TOML file. ``tomllib`` tells a line only of a file that it cannot read."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, TypeVar

from msgspec import Struct

from spooltop.engine.files import read_small, why_mistrusted
from spooltop.model import Action, Environ, Frozen, SpooltopError, UsageError, escape, parse_age, parse_toml

from .definition import (
    BOXES,
    DOMAIN,
    UNITS,
    CrossCheck,
    Fact,
    FileCondition,
    Filling,
    InvalidTemplate,
    Layout,
    LayoutAction,
    LockRule,
    Match,
    ProblemRule,
    Step,
    Template,
    VerdictRule,
)

Place = tuple[str | int, ...]
"""The path of a key: names of tables, numbers in arrays of tables, the key itself."""

_HEADER = r"\s*(\[\[?)\s*([^\[\]]+?)\s*\]\]?\s*(?:#.*)?\Z"
_KEY = r"""\s*("[^"]*"|'[^']*'|[A-Za-z0-9_-]+)\s*="""
_PART = re.compile(r"""\s*("[^"]*"|'[^']*'|[^.\s]+)\s*(?:\.|\Z)""")


def line_numbers(text: str) -> dict[Place, int]:
    """The lines, the first is 1, of the headers and keys of a file that ``tomllib`` can read, by their place. In a text over
    several lines it may take a line for a key; such a key is asked for by nobody."""
    found: dict[Place, int] = {}
    numbers: dict[str, int] = {}
    table: Place = ()
    for number, line in enumerate(text.splitlines(), 1):
        if header := re.match(_HEADER, line):
            names = tuple(part.strip("\"'") for part in _PART.findall(header[2]))
            table = names
            if header[1] == "[[":
                numbers[header[2]] = at = numbers.get(header[2], -1) + 1
                table = (*names, at)
                found.setdefault(names, number)
            found.setdefault(table, number)
        elif key := re.match(_KEY, line):
            found.setdefault((*table, key[1].strip("\"'")), number)
    return found


# Moves of messages by the actions of a layout: where they lead, and the way back from a folder of held messages. Each is tried
# on sample paths, since a template says which names it takes and not from where.

def lost_move(action: LayoutAction, matches: Sequence[Match]) -> str:
    """Says where ``action`` moves a message to a folder that no match names; empty where it does not."""
    for match in _from(action, matches):
        for to in _targets(action, match):
            folder = os.path.dirname(_moved(match, to))
            if not any(_takes(one, folder) for one in matches):
                where = "a folder that no [[match]] names: nobody would see it there"
                return f"{action.name} moves {match.template.text} to {to.text}, {where}"
    return ""


def _takes(match: Match, folder: str) -> bool:
    named = os.path.dirname(match.template.text.removesuffix("/"))
    return Template.parse(named).match(folder) is not None if named and folder else named == folder


def release_of(actions: Sequence[LayoutAction], matches: Sequence[Match]) -> LayoutAction | str | None:
    """The release of messages that a hold has moved to a folder of the queue's own: the same rename, the other way round. A text
    says why there is none; None where no hold moves them so."""
    ways: dict[str, Filling] = {}
    for action in actions:
        for match in _from(action, matches) if action.name == "hold" else ():
            for to in _targets(action, match):
                if [step.verb for step in action.steps] != ["rename"]:
                    return f"no release: hold does more than the rename to {to.text}, which alone can be turned round"
                held = next((one for one in matches if one.template.match(_moved(match, to))), None)
                if held is None:
                    return f"no release: {_moved(match, to)}, as hold names a message, fits no [[match]]"
                if held.box != "held":
                    return f"no release: {to.text} is a place of {held.box} messages"
                back = next((way for way in _ways(match, held) if _leads_back(match, to, held, way)), None)
                if back is None:
                    return f"no release: the name in {to.text} does not tell its place in {match.template.text}"
                ways[back.text] = back
    if len(ways) > 1:
        return f"no release: the place of a held message may be {' or '.join(ways)}"
    path = Filling.path("{path}")
    return next((LayoutAction("release", ("held",), (Step("rename", (path, back)),)) for back in ways.values()), None)


def _from(action: LayoutAction, matches: Sequence[Match]) -> list[Match]:
    return [match for match in matches if match.box in action.boxes]


def _targets(action: LayoutAction, match: Match) -> list[Filling]:
    """The paths to which ``action`` renames a message of ``match``."""
    path = match.template.sample()
    return [
        step.words[1] for step in action.steps if step.verb == "rename" and step.words[0].fill(_fields(match, path)) == path
    ]


def _fields(match: Match, path: str) -> dict[str, str]:
    return {**(match.template.match(path) or {}), "path": path, "name": os.path.basename(path)}


def _moved(match: Match, to: Filling, *, other: bool = False) -> str:
    path = match.template.sample(other)
    return to.fill(_fields(match, path), now=1.8e9, next_number=lambda piece: 7)


def _ways(match: Match, held: Match) -> Iterator[Filling]:
    """The paths that a held message may have had: of the same pieces, or of the same name in the same folder."""
    path = match.template.text.removesuffix("/")
    folder = path.rpartition("/")[0]
    for text in (path, f"{folder}/{{name}}" if folder else "{name}"):
        try:
            yield Filling.path(re.sub(r":[^{}]*\}", "}", text), tuple(held.template.types))
        except InvalidTemplate:
            continue  # it has a piece that the name of a held message lacks


def _leads_back(match: Match, to: Filling, held: Match, back: Filling) -> bool:
    for other in (False, True):
        path = _moved(match, to, other=other)
        if held.template.match(path) is None or back.fill(_fields(held, path)) != match.template.sample(other):
            return False
    return True


# Reads a layout from TOML and checks all of it. An error names the file, the line and the reason.

T = TypeVar("T")

FACTS = ("enqueued_at", "since", "not_before", "expires", "attempts", "max_attempts", "reason", "source")
VERBS = {"rename": 2, "link": 2, "unlink": 1, "rmdir": 1, "mkdir": 1, "write": 2, "trash": 1, "held": 1, "poke": 1, "touch": 1}
"""The steps of actions, and the number of words of each; the last word of ``write`` is the text."""
ACTIONS = ("requeue", "purge", "hold")
COMMANDS = ("requeue", "purge", "hold", "release")
CODES = ("conflict", "lock-stale", "failing")
_READ = ("json", "file", "tail", "record")
"""Kinds of facts that stand in a file."""
_MANY = 64
"""Maximum number of entries of a list: each may be tried with every name of the queue."""
_JSON = r"([A-Za-z_][A-Za-z0-9_.]*)(?:\+([0-9]+))?\Z"


def parse_layout(file: str, text: str) -> Layout:
    """Reads a layout. ``file`` is only named in errors. Raises ``UsageError``."""
    try:
        values = parse_toml(text)
    except (ValueError, RecursionError) as error:
        found = re.search(r"(.*?) \(at line (\d+), column \d+\)", str(error))
        line, why = (int(found[2]), found[1]) if found else (1, str(error))
        raise _error(file, line, f"not valid TOML: {why}") from None
    return _Table(file, values, line_numbers(text), (), []).whole(_layout)


def _error(file: str, line: int, why: str) -> UsageError:
    return UsageError(_at_line(file, line, why), "mend it; spooltop layouts shows those that load")


def _at_line(file: str, line: int, why: str) -> str:
    return f"{escape(file)}: line {line}: {escape(why)}"


class _Table(Struct):
    """A table of the file, which ``whole`` reads: its members are taken one by one, and what is left at the end is unknown.
    ``warnings`` are those of the whole file."""

    file: str
    values: dict[str, Any]
    lines: Mapping[Place, int]
    place: Place
    warnings: list[str]
    known: list[str] = []

    def line(self, name: str) -> int:
        """The line of a member; of the table around it where it has none of its own."""
        places = ((*self.place, name)[:end] for end in range(len(self.place) + 1, 0, -1))
        return next((self.lines[place] for place in places if place in self.lines), 1)

    def wrong(self, name: str, why: str) -> UsageError:
        return _error(self.file, self.line(name), why)

    def warn(self, name: str, why: str) -> None:
        self.warnings.append(_at_line(self.file, self.line(name), why))

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

    def text(self, name: str) -> str:
        """Takes a text, "" where there is none."""
        return self.take(name, str, "")

    def need(self, name: str) -> str:
        """Takes a text that must be there and not be empty."""
        value = self.text(name)
        if not value:
            raise self.wrong(name, f"{name} is missing")
        return value

    def texts(self, name: str) -> list[str]:
        """Takes a list of texts."""
        value: list[object] = self.take(name, list, [])
        if not all(isinstance(one, str) for one in value):
            raise self.wrong(name, f"{name} must be a list of texts")
        return [str(one) for one in value]

    def parsed(self, name: str, parse: Callable[..., T], text: str, *more: object) -> T:
        """Parses the text of a member; an invalid template or age is an error of its line."""
        try:
            return parse(text, *more)
        except (InvalidTemplate, UsageError) as error:
            raise self.wrong(name, f"{name} = {text!r}: {error}") from None

    def one_of(self, name: str, text: str, allowed: Iterable[str]) -> str:
        if text not in allowed:
            raise self.wrong(name, f"{name} = {text!r}: there are {', '.join(allowed)}")
        return text

    def choice(self, name: str, allowed: Iterable[str]) -> str:
        """Takes a text that is one of ``allowed``, "" where there is none."""
        text = self.text(name)
        return text and self.one_of(name, text, allowed)

    def table(self, name: str) -> _Table:
        return self.part(self.take(name, dict, {}), name)

    def each(self, name: str, read: Callable[..., T], *more: object) -> tuple[T, ...]:
        """Takes an array of tables, and returns what ``read`` makes of each."""
        value: list[object] = self.take(name, list, [])
        if not all(isinstance(one, dict) for one in value):
            raise self.wrong(name, f"{name} is written [[{name}]]")
        tables = (self.part(dict(one), name, i) for i, one in enumerate(value))  # type: ignore[call-overload]
        return tuple(table.whole(read, *more) for table in tables)

    def members(self, names: Sequence[str]) -> dict[str, str]:
        """Takes the texts of those of ``names`` that there are."""
        found = {name: self.text(name) for name in names if name in self.values}
        self.known += names
        return found

    def whole(self, read: Callable[..., T], *more: object) -> T:
        """Returns what ``read`` makes of this table. Raises for a member that it does not take."""
        value = read(self, *more)
        for name in self.values:
            import difflib  # only for what is misspelt

            near = difflib.get_close_matches(name, self.known, 1)
            advice = f"did you mean {near[0]}?" if near else f"there are {', '.join(self.known)}"
            raise self.wrong(name, f"unknown key {name}; {advice}")
        return value


def _layout(top: _Table) -> Layout:
    name = top.need("name")
    signs = [(top.parsed("detect", Template.parse, text.removeprefix("?")), text) for text in top.texts("detect")]
    # A name that only some have, marked with ?, says nothing where it is missing.
    detect = tuple(template for template, text in signs if not text.startswith("?"))
    needs = [top.text("needs_any")] if isinstance(top.values.get("needs_any"), str) else top.texts("needs_any")
    if not needs and not detect:
        raise top.wrong("detect", "detect needs at least one name that must be there, or needs_any a path")
    matches = top.each("match", _match)
    if not matches:
        raise top.wrong("match", "there is no [[match]]: nothing would be a message")
    watched = _place(top, "watched", top.text("watched"))
    lock = top.text("lock")
    if lock and not lock.startswith("flock:"):
        raise top.wrong("lock", "lock is written flock:PATH")
    lock = _place(top, "lock", lock.removeprefix("flock:"))
    side_dir = top.take("side_dir", str, ".spooltop")
    if side_dir == "../{root}" or not re.fullmatch(
        r"\.[A-Za-z0-9_-]+|\.\./\.?[A-Za-z0-9_.-]*\{root\}[A-Za-z0-9_.-]*", side_dir
    ):
        where = "a name in the directory that begins with a dot, or beside it: ../ and a name with {root}"
        raise top.wrong("side_dir", f"side_dir = {side_dir!r}: {where}")
    blind = top.table("blind").whole(_Table.members, BOXES)
    actions = [*top.each("action", _action, matches)]
    if isinstance(release := release_of(actions, matches), LayoutAction):
        actions.append(release)
    elif release is not None:
        top.warn("action", release)
    locks = top.table("locks")
    layout = Layout(
        name=name, file=top.file, detect=detect, matches=matches, lock=lock, watched=watched,
        needs_any=tuple(top.parsed("needs_any", Template.parse, text) for text in needs), side_dir=side_dir, blind=blind,
        read_only=top.text("read_only"), checks=top.each("cross_check", _check),
        problems=top.each("problem", _problem, matches),
        locks=tuple(locks.table(path).whole(_lock, path) for path in list(locks.values)),
        actions=tuple(actions), commands=top.table("commands").whole(_commands), warnings=tuple(top.warnings),
        claim_long=top.parsed("claim_long", parse_age, text) if (text := top.text("claim_long")) else None,
    )  # fmt: skip
    if any(match.verdict is not None and match.verdict.watched for match in matches) and not watched:
        raise top.wrong("watched", 'a verdict has else = "watched", but watched names no directory')
    if layout.read_only and layout.actions:
        raise top.wrong("read_only", "a layout that is read-only has no [[action]]")
    return layout


def _place(table: _Table, name: str, text: str) -> str:
    """Checks the path of a file that the whole queue has; it has no pieces."""
    if not text:
        return ""
    template = table.parsed(name, Template.parse, text.removesuffix("/"))
    if template.types or "*" in text:
        raise table.wrong(name, f"{name} = {text!r}: one file, without pieces and *")
    return text.removesuffix("/")


def _match(table: _Table) -> Match:
    box = table.one_of("box", table.need("box"), BOXES)
    template = table.parsed("path", Template.parse, table.need("path"))
    pieces = tuple(template.types)
    if template.types.get("pid", "int") != "int":
        raise table.wrong("path", "path: the piece called pid is that of a process: {pid:int}")
    when = table.text("when")
    facts = table.table("metadata")
    found = {name: _fact(facts, name, text, template) for name, text in facts.whole(_Table.members, FACTS).items()}
    if "enqueued_at" not in found and template.types.get("put") in UNITS:
        found["enqueued_at"] = Fact("name", "put", unit=template.types["put"])
    if box == "new" and "enqueued_at" not in found:
        table.warn("path", f"{template.text} says no time of the put, so that of the file (mtime) counts: name enqueued_at")
        found["enqueued_at"] = Fact("mtime")
    table.choice("order", ("name", *pieces))
    table.text("note_if_locked")
    verdict = table.table("verdict")
    return Match(
        box, template, _condition(table, when, pieces) if when else None, found,
        verdict.whole(_verdict, template) if verdict.values else None, any(fact.kind in _READ for fact in found.values()),
    )  # fmt: skip


def _condition(table: _Table, text: str, pieces: tuple[str, ...]) -> FileCondition:
    kind, _, path = text.partition(":")
    if text == "mode:x":
        return FileCondition("mode")
    if kind == "tail" and path:
        return FileCondition(kind, text=table.parsed("when", Template.of_text, path))
    if kind not in ("exists", "flock") or not path:
        raise table.wrong("when", f"when = {text!r}: write exists:PATH, flock:PATH, tail:TEXT or mode:x")
    return FileCondition(kind, table.parsed("when", Filling.path, path, pieces))


def _fact(table: _Table, name: str, text: str, template: Template) -> Fact:
    kind, _, rest = text.partition(":")
    pieces = tuple(template.types)

    def filled(path: str) -> Filling:
        return table.parsed(name, Filling.path, path, pieces)

    if text in pieces:
        if template.types[text] not in UNITS:
            raise table.wrong(name, f"{name}: the type of {{{text}}} is no time; write name:{text}:UNIT, or give it a type")
        return Fact("name", text, unit=template.types[text])
    if kind in ("mtime", "ctime"):
        return Fact(kind, path=filled(rest) if rest else None)
    if kind == "json":
        member, _, unit = rest.partition(":")
        found = re.match(_JSON, member)
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
        return table.parsed(name, Filling.path, text, pieces) if text else None

    lease, _, unit = (text := table.text("lease")).rpartition(":")
    if text and not (lease and unit):
        raise table.wrong("lease", f"lease = {text!r}: write PATH:UNIT")
    pid = table.choice("pid", pieces)
    if pid and template.types[pid] != "int":
        raise table.wrong("pid", f"pid: {{{pid}}} is no number: give it the type int")
    proves, otherwise = table.choice("proves", ("nothing",)), table.choice("else", ("watched",))
    return VerdictRule(
        path("flock", table.text("flock")), pid, _place(table, "pidfile", table.text("pidfile")),
        path("lease", lease), _unit(table, "lease", unit), path("open", table.text("open")),
        bool(proves), bool(otherwise),
    )  # fmt: skip


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
    return CrossCheck(template, says, wants, table.need("missing"), table.text("without"))


def _problem(table: _Table, matches: Sequence[Match]) -> ProblemRule:
    code = table.one_of("code", table.need("code"), CODES)
    when, text = table.need("when"), table.need("text")
    kind, _, rest = when.partition(":")
    pieces = {piece: kind for match in matches for piece, kind in match.template.types.items()}
    if kind == "same":
        return ProblemRule(code, text, same=table.one_of("when", rest, pieces))
    if kind != "alone":
        raise table.wrong("when", f"when = {when!r}: write same:PIECE or alone:PATH without PATH")
    path, _, beside = rest.partition(" without ")
    template = table.parsed("when", Template.parse, path)
    if not beside:
        raise table.wrong("when", f"when = {when!r}: write alone:PATH without PATH")
    message = table.parsed("when", Filling.path, beside, tuple(template.types))
    return ProblemRule(code, text, alone=template, beside=message)


def _lock(table: _Table, path: str) -> LockRule:
    table.parsed(path, Filling.path, path)
    empty = Template.parse("lock")
    facts = {name: _fact(table, name, text, empty) for name in ("holder", "until") if (text := table.text(name))}
    return LockRule(path, table.one_of("kind", table.need("kind"), ("lease", "pid")), **facts)


def _commands(table: _Table) -> dict[Action, str]:
    commands = {}
    for name in list(table.values):
        action = Action(table.one_of(name, name, COMMANDS))
        text = table.need(name)
        if "{id}" not in text or not text.isprintable() or set(text.replace("{id}", "")) & {*"{}'\""}:
            raise table.wrong(name, f"{name} = {text!r}: a command with {{id}} for the message, no other piece, and no quotes")
        commands[action] = text
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
    needs = table.choice("needs", ("dead",))
    action = LayoutAction(
        name, boxes, steps, bool(needs), table.take("force", bool, False),
        table.text("note"), table.text("effect"),
    )  # fmt: skip
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
        return table.parsed("steps", Filling.parse if is_text else Filling.path, word, known)

    return Step(verb, tuple(filled(place, word) for place, word in enumerate(words)))


# The files of layouts: those that ship with spooltop, the machine's, and the user's. A layout says which files an operator
# moves and removes. For root, a file that is not root's own, or that others may write, is therefore not read, and the folder in
# a home directory not at all. The same holds for a folder: whoever may write it chooses which of root's files are layouts.

SHIPPED = os.path.join(os.path.dirname(__file__), "shipped")
MACHINE = "/etc/spooltop/layouts"
_LIMIT = 256 * 1024


class LayoutFile(Frozen):
    """A file of a layout: the layout, or the error that says why it is not used."""

    path: str
    layout: Layout | None
    error: SpooltopError | None = None


def folders(environ: Environ) -> tuple[str, ...]:
    """The folders of layouts, the first one wins: the user's (not for root), the machine's, those that ship."""
    home = environ.get("XDG_CONFIG_HOME") or (os.path.join(environ["HOME"], ".config") if environ.get("HOME") else "")
    own = (os.path.join(home, "spooltop", "layouts"),) if home and os.geteuid() else ()
    return (*own, MACHINE, SHIPPED)


def read_layout(path: str) -> Layout:
    """Reads one layout. Raises ``UsageError`` for a file that is not valid or not trusted."""
    try:
        found = read_small(path, limit=_LIMIT, whole=True, follow=True)
    except OSError as error:
        why = os.strerror(error.errno or 0)
        raise UsageError(f"{escape(path)}: cannot be read: {why}", "name a layout file, or a layout") from None
    try:
        text = found.data.decode()
    except UnicodeDecodeError as error:
        line = found.data[: error.start].count(b"\n") + 1
        raise UsageError(f"{escape(path)}: line {line}: not UTF-8", "store it as UTF-8") from None
    if why := _why_mistrusted(os.path.dirname(path), found.status):
        raise UsageError(f"{escape(path)}: {why}", "chown it to yourself and chmod go-w, if you trust it")
    return parse_layout(path, text)


def _why_mistrusted(folder: str, found: os.stat_result) -> str:
    """Why this user does not read layouts of another owner or mode; "" for those that ship, trusted as the program is."""
    return "" if folder == SHIPPED else why_mistrusted(found, os.geteuid())


@cache
def _shipped(path: str) -> Layout:
    """A layout that ships, read once: it stays as it is while this runs."""
    return read_layout(path)


def layout_files(environ: Environ) -> Iterator[LayoutFile]:
    """Yields every layout file of all folders, those of the first folder first, each folder by name."""
    for folder in folders(environ):
        try:
            names, found = sorted(os.listdir(folder)), os.stat(folder)
        except OSError:
            continue  # most users and machines have none
        if (why := _why_mistrusted(folder, found)) and names:
            advice = "chown it to yourself and chmod go-w, if you trust what is in it"
            yield LayoutFile(folder, None, UsageError(f"{escape(folder)}: {why}", advice))
            continue
        for name in names:
            if not name.endswith(".toml") or name.startswith("."):
                continue
            path = os.path.join(folder, name)
            try:
                yield LayoutFile(path, _shipped(path) if folder == SHIPPED else read_layout(path))
            except SpooltopError as error:
                yield LayoutFile(path, None, error)


def find_layout(name: str, environ: Environ) -> Layout | None:
    """Returns the first layout with this name, or in a file of this name without ``.toml``; None where there is none. Raises the
    error of a file of this name that is not valid."""
    for one in layout_files(environ):
        stem = os.path.basename(one.path).removesuffix(".toml")
        if one.layout is not None and name in (one.layout.name, stem):
            return one.layout
        if one.error is not None and name == stem:
            raise one.error
    return None
