"""The definition of a layout: its TOML file, read, checked and kept as a value, with the templates of its paths and texts."""

from __future__ import annotations

import calendar
import re
import time
from collections.abc import Callable, Mapping
from typing import Any

from spooltop.model import Action, Frozen

# Units in which names and files of other programs tell a time, each as epoch seconds.

DOMAIN = "domain"
"""The unit of a text that is an address: its domain."""


def _dirq(text: str) -> float:
    """The time in the name of an element of dirq: 8 hexadecimal digits of seconds, 5 of microseconds, and a random one."""
    return int(text[:8], 16) + int(text[8:13], 16) / 1e6


def _timeval(text: str) -> float:
    """Seconds and microseconds with a space between."""
    seconds, _, micros = text.partition(" ")
    return int(seconds) + int(micros or 0) / 1e6


def _hexlocal(text: str) -> float:
    """Milliseconds as ``time.mktime`` makes them of a UTC time that it takes for a local one, as huey does with a task's time.
    Right where the program runs in the time zone of whoever reads it."""
    at = int(text, 16) / 1e3
    return calendar.timegm(time.localtime(at)) + at % 1


UNITS: dict[str, Callable[[str], float]] = {
    "sec": float,
    "ms": lambda text: float(text) / 1e3,
    "us": lambda text: float(text) / 1e6,
    "hexsec": lambda text: float(int(text, 16)),
    "hexms": lambda text: int(text, 16) / 1e3,
    "hexlocal": _hexlocal,
    "timeval": _timeval,
    "dirq": _dirq,
}
"""Functions from a text to epoch seconds, by the name of the unit. They raise ``ValueError`` for a text of another form."""

LATEST = 253402300800.0
"""The year 10000: no time of a message, and more than a calendar prints."""


def time_of(unit: str, text: str) -> float | None:
    """Epoch seconds that ``text`` tells in this unit; None where it tells none."""
    try:
        at = UNITS[unit](text.strip())
    except (ValueError, OverflowError, OSError):
        return None
    return at if 0.0 <= at < LATEST else None


def domain_of(address: str) -> str:
    """The domain of an address, by which mail queues are counted, in small letters; the name of a user without a domain. The
    empty sender is that of bounces."""
    return address.rpartition("@")[2].lower() or "MAILER-DAEMON"


# Templates of paths and texts: literal characters and typed pieces, ``processing/{owner}/{id}.msg``. A piece is ``{name}``,
# ``{name:type}``, or ``*`` for characters that nobody asks for. A template is no regular expression: whoever writes one cannot
# make a match take longer than the name is long. Each piece but the last open one takes what it can at its place and never
# gives it back.

TYPES = ("int", "hex", "hexN", "sec", "ms", "hexsec", "hexms", "uuid", "pfid", "A|B")
"""The types of pieces. Without one a piece takes any characters but a slash, as few as the text after it allows; ``int`` decimal
digits, ``hex`` hexadecimal digits in small letters, ``hex14`` exactly so many; ``sec`` and ``ms`` 10 and 13 decimal digits of
epoch seconds and milliseconds, ``hexsec`` 8 and ``hexms`` 11 or 12 hexadecimal ones; ``uuid`` the 36 characters of a UUID;
``pfid`` 6 to 20 letters and digits, an id of a Postfix queue; ``queue|schedule`` one of these words."""

DEEPEST = 8
"""Maximum number of parts of a path."""

_CLASSES = {
    "int": "[0-9]++", "hex": "[0-9a-f]++", "sec": "[0-9]{10}", "ms": "[0-9]{13}", "hexsec": "[0-9a-f]{8}",
    "hexms": "[0-9a-f]{11,12}+",
    "uuid": "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "pfid": "[0-9A-Za-z]{6,20}+",
}  # fmt: skip
_SAMPLES = {
    "int": ("7", "12"), "hex": ("a7", "b"), "sec": ("1700000000", "1800000000"), "ms": ("1700000000000", "1800000000000"),
    "hexsec": ("6553f100", "6b49d200"), "hexms": ("18bcfe56800", "1a3185c5000"), "pfid": ("4XyZa7", "9BcDfGhJkL"),
    "uuid": ("0b0c3f6e-1c1e-4e7c-9d7e-1f3b5a7c9d0e", "1b0c3f6e-1c1e-4e7c-9d7e-1f3b5a7c9d0e"),
}  # fmt: skip
"""Two texts that each type takes."""
_PIECE = re.compile(r"\{([^{}]*)\}|\*|([^{}*]+)|(.)", re.DOTALL)
_NAME = r"[a-z][a-z0-9_]*\Z"
_HEX = r"hex([1-9][0-9]?)\Z"
_WORDS = r"[A-Za-z0-9_.-]+(?:\|[A-Za-z0-9_.-]+)+\Z"


class InvalidTemplate(ValueError):
    """The template cannot be used; the text says why."""


class Template(Frozen):
    """``text`` as it was written; ``types`` are those of its named pieces; ``depth`` is the number of slashes between its parts.
    ``directory``: it ends in a slash and matches directories only."""

    text: str
    types: Mapping[str, str]
    depth: int
    directory: bool
    pattern: re.Pattern[str]

    @classmethod
    def parse(cls, text: str) -> Template:
        """Reads the template of a path below the root of a queue. Raises ``InvalidTemplate``."""
        directory = text.endswith("/")
        parts = text.removesuffix("/").split("/")
        if text.startswith("/"):
            raise InvalidTemplate("it must lie below the directory: it begins with /")
        if any(part in ("", ".", "..") for part in parts):
            raise InvalidTemplate("it has an empty part, . or ..")
        if len(parts) > DEEPEST:
            raise InvalidTemplate(f"it has {len(parts)} parts; a queue is read {DEEPEST} deep at most")
        types: dict[str, str] = {}
        pattern = "/".join(_compile(part, types, "[^/]") for part in parts)
        return cls(text, types, len(parts) - 1, directory, re.compile(pattern + r"\Z", re.DOTALL))

    @classmethod
    def of_text(cls, text: str) -> Template:
        """Reads the template of the text in a file, of a single line. Raises ``InvalidTemplate``."""
        types: dict[str, str] = {}
        return cls(text, types, 0, False, re.compile(_compile(text, types, "[^\n]") + r"\Z"))

    def match(self, path: str) -> dict[str, str] | None:
        """The pieces of ``path`` by name; None where it does not match."""
        found = self.pattern.match(path)
        return None if found is None else found.groupdict()

    def sample(self, other: bool = False) -> str:
        """A path that matches: one of two that differ in every piece that can."""
        def piece(found: re.Match[str]) -> str:
            kind = (found[1] or "").partition(":")[2]
            if "|" in kind:
                return kind.split("|")[-1 if other else 0]
            if exact := re.match(_HEX, kind):
                return "ab"[other] * int(exact[1])
            return _SAMPLES.get(kind, ("x", "y7"))[other]

        return re.sub(r"\{([^{}]*)\}|\*", piece, self.text.removesuffix("/"))

    def leads_through(self, folder: str) -> bool:
        """True if a path that matches may lie in ``folder``, itself a path below the root."""
        parts = folder.split("/")
        return len(parts) <= self.depth and Template.parse("/".join(self.text.split("/")[: len(parts)])).match(folder) is not None


def _compile(text: str, types: dict[str, str], any_character: str) -> str:
    """The regular expression of one part of a template; adds its named pieces to ``types``."""
    tokens = [(*found.groups(), found[0]) for found in _PIECE.finditer(text)]
    parts: list[str] = []
    open_at = max((i for i, (name, literal, other, _) in enumerate(tokens) if literal is None and _is_open(name)), default=-1)
    for place, (name, literal, other, whole) in enumerate(tokens):
        if other is not None:
            raise InvalidTemplate(f"{whole!r} opens or closes no piece: write {{name}} or {{name:type}}")
        if literal is not None:
            parts.append(re.escape(literal))
            continue
        body = _body(name, types, any_character, place == len(tokens) - 1)
        if _is_open(name) and place != open_at:
            following = tokens[place + 1][1] if place + 1 < len(tokens) else None
            if following is None:
                raise InvalidTemplate(f"{whole} stands beside another piece: put a character between them, or give it a type")
            # Up to the first place where the text after it stands, for good: linear however many of them there are.
            body = f"(?>{body}(?={re.escape(following)}))"
        parts.append(body)
    return "".join(parts)


def _is_open(name: str | None) -> bool:
    """True for ``*`` (None) and for a piece without a type: any characters."""
    return name is None or ":" not in name


def _body(piece: str | None, types: dict[str, str], any_character: str, last: bool) -> str:
    if piece is None:
        return f"{any_character}*" if last else f"{any_character}*?"
    name, _, kind = piece.partition(":")
    if not re.match(_NAME, name):
        raise InvalidTemplate(f"{{{piece}}}: a name is small letters, digits and _")
    if name in types:
        raise InvalidTemplate(f"{{{name}}} stands twice")
    exact = re.match(_HEX, kind)
    words = [re.escape(word) for word in sorted(kind.split("|"), key=len, reverse=True)] if re.match(_WORDS, kind) else []
    if kind and kind not in _CLASSES and not exact and not words:
        raise InvalidTemplate(f"{{{piece}}}: unknown type {kind!r}; there are {', '.join(TYPES)}")
    types[name] = kind
    if words:
        return f"(?P<{name}>(?>{'|'.join(words)}))"
    text = f"{any_character}+{'' if last else '?'}" if not kind else f"[0-9a-f]{{{exact[1]}}}" if exact else _CLASSES[kind]
    return f"(?P<{name}>{text})"


# Paths and texts that are filled in from the pieces of a message: ``jobs/{id}.state``, ``queued:{now:ms}``. The pieces come
# from names that anybody may have put into the queue. A path that would lead out of it is never made.

_BRACED = re.compile(r"\{([^{}]*)\}")
_NOW = {"sec": 1, "ms": 1000, "us": 1_000_000}
ALWAYS = ("path", "name", "now")
"""Pieces that every message has: its path below the root, its file name, the time."""


class Filling(Frozen):
    """``text`` as it was written: literal characters and pieces, ``{name}`` or ``{name:format}``."""

    text: str

    @classmethod
    def parse(cls, text: str, known: tuple[str, ...] = ()) -> Filling:
        """Reads it; ``known`` are the pieces that may stand in it besides those that every message has. Raises
        ``InvalidTemplate``."""
        if stray := re.search("[{}]", _BRACED.sub("", text)):
            raise InvalidTemplate(f"{stray[0]!r} opens or closes no piece")
        for piece in _BRACED.findall(text):
            name, _, form = piece.partition(":")
            if name == "now":
                if form not in ("", *_NOW):
                    raise InvalidTemplate(f"{{{piece}}}: the time is written as {', '.join(_NOW)}")
            elif name not in (*ALWAYS, *known):
                raise InvalidTemplate(f"{{{piece}}}: no such piece; there are {', '.join((*ALWAYS, *known))}")
            elif form and not re.fullmatch(r"next(:0?[0-9]{1,2})?", form):
                raise InvalidTemplate(f"{{{piece}}}: after the name only next or next:WIDTH may stand")
        return cls(text)

    @classmethod
    def path(cls, text: str, known: tuple[str, ...] = ()) -> Filling:
        """Reads the filling of a path below the root. Raises ``InvalidTemplate``."""
        if text.startswith("/") or any(part in (".", "..") for part in text.split("/")):
            raise InvalidTemplate("it must lie below the directory: no / at the beginning, no . or .. in it")
        if text.count("/") >= DEEPEST:
            raise InvalidTemplate(f"it has {text.count('/') + 1} parts; a queue is read {DEEPEST} deep at most")
        return cls.parse(text, known)

    def fill(self, fields: Mapping[str, str], now: float = 0.0, next_number: Callable[[str], int] | None = None) -> str:
        """Returns the text for a message with these pieces. ``now`` in epoch seconds; ``next_number`` gives the number after the
        highest one that a piece has in the queue."""
        def piece(found: re.Match[str]) -> str:
            name, _, form = found[1].partition(":")
            if name == "now":
                return str(int(now * _NOW[form or "sec"]))
            if form.startswith("next") and next_number is not None:
                return f"{next_number(name):{form.partition(':')[2] or '0'}d}"
            return fields[name]

        return _BRACED.sub(piece, self.text)

    def path_of(self, fields: Mapping[str, str], *more: Any) -> str | None:
        """Returns the path for a message, relative to the root; None where its pieces would lead elsewhere."""
        path = self.fill(fields, *more)
        parts = path.removesuffix("/").split("/")
        return None if "\0" in path or any(part in ("", ".", "..") for part in parts) else path


# The layout of a program's queue as a value: which file is a message in which box, and what may be done to it.

BOXES = ("tmp", "new", "cur", "held", "rejected", "delivered")
"""Boxes that a file can lie in. ``delivered``: handed out by a queue that knows no ack."""


class FileCondition(Frozen):
    """A further condition on a file. ``kind``: the ``path`` exists, the file's mode lets its owner execute it, somebody holds
    flock on the ``path``, or its tail, the last line, matches ``text``."""

    kind: str
    path: Filling | None = None
    text: Template | None = None


class Fact(Frozen):
    """The place of a fact about a message. ``kind``: mtime, ctime, json, file, tail, record, or name. ``name`` is the member of
    the JSON object, the letter of the record or the piece of the path, ``path`` another file than the message, ``unit`` that of a
    time, or domain, ``plus`` is added to a number, ``text`` the template of the last line."""

    kind: str
    name: str = ""
    path: Filling | None = None
    unit: str = ""
    plus: int = 0
    text: Template | None = None


class VerdictRule(Frozen):
    """The evidence for a verdict on a file: the lock of a file, a pid in its name, a file with a pid, a lease, who has it open.
    ``proves_nothing``: none of it shows that a holder is dead, or it names nobody; ``watched``: then nobody who watches the
    directory ``Layout.watched`` is the proof."""

    flock: Filling | None = None
    pid: str = ""
    pidfile: str = ""
    lease: Filling | None = None
    lease_unit: str = ""
    open: Filling | None = None
    proves_nothing: bool = False
    watched: bool = False


class Match(Frozen):
    """Files that lie in ``box``. ``is_read``: facts about them stand in files."""

    box: str
    template: Template
    when: FileCondition | None = None
    facts: Mapping[str, Fact] = {}
    verdict: VerdictRule | None = None
    is_read: bool = False


class CrossCheck(Frozen):
    """A second register of messages. ``says`` are the templates of its text, ``wants`` the boxes in which a message with this
    state lies, ``missing`` and ``without`` what to say where it lies in none, or has no entry."""

    template: Template
    says: tuple[Template, ...]
    wants: Mapping[str, tuple[str, ...]]
    missing: str
    without: str = ""


class ProblemRule(Frozen):
    """A problem of the layout: ``same`` piece twice in ``new``, or a file of ``alone`` whose message ``beside`` is not there."""

    code: str
    text: str
    same: str = ""
    alone: Template | None = None
    beside: Filling | None = None


class LockRule(Frozen):
    """A file that is a lock: its kind, and where it names its holder and its end."""

    path: str
    kind: str
    holder: Fact | None = None
    until: Fact | None = None


class Step(Frozen):
    """Change of one file: a verb and its words, which are filled in from the pieces of the message."""

    verb: str
    words: tuple[Filling, ...]


class LayoutAction(Frozen):
    """An operation: its steps in this order for each message in one of ``boxes``. ``needs_dead``: only where the holder is dead;
    ``force``: only with force, as nobody can be shown to be dead. ``effect`` says what a message does ("moves to …"), where that
    is not what it does in a spool."""

    name: str
    boxes: tuple[str, ...]
    steps: tuple[Step, ...]
    needs_dead: bool = False
    force: bool = False
    note: str = ""
    effect: str = ""


class Layout(Frozen):
    """A layout. ``detect`` are names that must be there, ``needs_any`` paths of which at least one must be there. ``lock`` is a
    file that is locked by flock(2) around each change, ``watched`` a directory that each process of the program watches,
    ``side_dir`` where undo, audit and trash lie. ``blind`` says of a box why it cannot be seen. ``read_only`` says why nothing is
    changed; ``commands`` are those of the program itself, with ``{id}`` for the message; ``file`` is where it was read.
    ``claim_long``: seconds from which on a claim has been held for long, None: as the setting says. ``warnings`` say what its
    author may not have meant, each with the file and the line."""

    name: str
    file: str
    detect: tuple[Template, ...]
    matches: tuple[Match, ...]
    needs_any: tuple[Template, ...] = ()
    lock: str = ""
    watched: str = ""
    side_dir: str = ".spooltop"
    read_only: str = ""
    blind: Mapping[str, str] = {}
    checks: tuple[CrossCheck, ...] = ()
    problems: tuple[ProblemRule, ...] = ()
    locks: tuple[LockRule, ...] = ()
    actions: tuple[LayoutAction, ...] = ()
    commands: Mapping[Action, str] = {}
    claim_long: float | None = None
    warnings: tuple[str, ...] = ()

    @property
    def proves_death(self) -> bool:
        """True if the evidence that it names for claims can show that a holder is dead."""
        rules = [match.verdict for match in self.matches if match.box == "cur" and match.verdict is not None]
        return any(
            rule.watched or (not rule.proves_nothing and (rule.flock or rule.pid or rule.pidfile or rule.open or rule.lease))
            for rule in rules
        )

    @property
    def verbs(self) -> set[str]:
        """The verbs of the steps of its actions; ``held`` and ``trash`` set messages aside."""
        return {step.verb for action in self.actions for step in action.steps}

    @property
    def why_read_only(self) -> str:
        """Says why nothing is changed; empty where it has actions."""
        if self.actions:
            return ""
        return self.read_only or f"a queue of {self.name}: spooltop shows it, its own program changes it"

    @property
    def depth(self) -> int:
        """The number of levels of directories in which its files lie."""
        templates = [match.template for match in self.matches] + [check.template for check in self.checks]
        templates += [rule.alone for rule in self.problems if rule.alone is not None]
        return 1 + max(template.depth for template in templates)
