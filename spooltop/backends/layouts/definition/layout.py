"""The layout of a program's queue as a value: which file is a message in which box, and what may be done to it."""

from __future__ import annotations

from collections.abc import Mapping

from spooltop.model.vocabulary import Action
from spooltop.records import dataclass

from .filling import Filling
from .templates import Template

__all__ = [
    "BOXES",
    "CrossCheck",
    "Fact",
    "FileCondition",
    "Layout",
    "LayoutAction",
    "LockRule",
    "Match",
    "ProblemRule",
    "Sign",
    "Step",
    "VerdictRule",
]  # fmt: skip

BOXES = ("tmp", "new", "cur", "held", "rejected", "delivered")
"""Boxes that a file can lie in. ``delivered``: handed out by a queue that knows no ack."""


@dataclass(frozen=True, slots=True)
class FileCondition:
    """A further condition on a file. ``kind``: the ``path`` exists, the file's mode lets its owner execute it, somebody holds
    flock on the ``path``, or its tail, the last line, matches ``text``."""

    kind: str
    path: Filling | None = None
    text: Template | None = None


@dataclass(frozen=True, slots=True)
class Fact:
    """The place of a fact about a message. ``kind``: mtime, ctime, json, file, tail, record, or name. ``name`` is the member of
    the JSON object, the letter of the record or the piece of the path, ``path`` another file than the message, ``unit`` that of a
    time, or domain, ``plus`` is added to a number, ``text`` the template of the last line."""

    kind: str
    name: str = ""
    path: Filling | None = None
    unit: str = ""
    plus: int = 0
    text: Template | None = None


@dataclass(frozen=True, slots=True)
class VerdictRule:
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


@dataclass(frozen=True, slots=True)
class Match:
    """Files that lie in ``box``. ``order`` names the piece, or ``name``, that the queue takes them by."""

    box: str
    template: Template
    when: FileCondition | None = None
    facts: Mapping[str, Fact] = {}
    verdict: VerdictRule | None = None
    order: str = ""
    note_if_locked: str = ""


@dataclass(frozen=True, slots=True)
class CrossCheck:
    """A second register of messages. ``says`` are the templates of its text, ``wants`` the boxes in which a message with this
    state lies, ``missing`` and ``without`` what to say where it lies in none, or has no entry."""

    template: Template
    says: tuple[Template, ...]
    wants: Mapping[str, tuple[str, ...]]
    missing: str
    without: str = ""


@dataclass(frozen=True, slots=True)
class ProblemRule:
    """A problem of the layout: ``same`` piece twice in ``new``, or a file of ``alone`` whose message ``beside`` is not there."""

    code: str
    text: str
    same: str = ""
    alone: Template | None = None
    beside: Filling | None = None


@dataclass(frozen=True, slots=True)
class LockRule:
    """A file that is a lock: its kind, and where it names its holder and its end."""

    path: str
    kind: str
    holder: Fact | None = None
    until: Fact | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """Change of one file: a verb and its words, which are filled in from the pieces of the message."""

    verb: str
    words: tuple[Filling, ...]


@dataclass(frozen=True, slots=True)
class LayoutAction:
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


@dataclass(frozen=True, slots=True)
class Sign:
    """A name that a directory of this layout has. ``optional``: only some have it; it then says nothing where it is missing."""

    template: Template
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Layout:
    """A layout. ``detect`` are names that must be there, ``needs_any`` paths of which at least one must be there. ``lock`` is a
    file that is locked by flock(2) around each change, ``watched`` a directory that each process of the program watches,
    ``side_dir`` where undo, audit and trash lie. ``blind`` says of a box why it cannot be seen. ``read_only`` says why nothing is
    changed; ``commands`` are those of the program itself, with ``{id}`` for the message; ``file`` is where it was read.
    ``claim_long``: seconds from which on a claim has been held for long, None: as the setting says. ``warnings`` say what its
    author may not have meant, each with the file and the line."""

    name: str
    file: str
    detect: tuple[Sign, ...]
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
