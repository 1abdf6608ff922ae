"""The steps of one message with every word filled in, as the journal holds them, and their inverses."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from ...journal.record_log import PART, Whole
from ..queue_dirs import ASIDE, is_aside

_LOCATION = rf"(?:{ASIDE})?{PART}(?:/{PART})*"
Location = Annotated[str, Meta(pattern=rf"\A{_LOCATION}\Z")]
"""A location that leads out of no directory."""
_LocationOrNone = Annotated[str, Meta(pattern=rf"\A(?:{_LOCATION})?\Z")]
Pin = tuple[Whole, Whole, Whole]
"""Identifies a file: device, inode, ctime in ns. All are 0 where no file is expected."""

_Text = Annotated[str, Meta(max_length=65_536)]


class Verb(StrEnum):
    """Kinds of changes. MOVE never replaces; LINK and MKDIR fail where the name is taken."""

    MOVE = "move"
    LINK = "link"
    UNLINK = "unlink"
    MKDIR = "mkdir"
    RMDIR = "rmdir"
    WRITE = "write"
    TOUCH = "touch"
    POKE = "poke"
    DELETE = "delete"


class FileChange(Struct, frozen=True, omit_defaults=True, rename={"verb": "do"}):
    """A change of the file at the location ``path``. ``to`` is the target of MOVE and LINK, and for UNLINK the location of the
    file under its other name. WRITE replaces the text ``before`` by ``text``; None: there is no such file."""

    verb: Verb
    path: Location
    to: _LocationOrNone = ""
    text: _Text | None = None
    before: _Text | None = None

    def __post_init__(self) -> None:
        if bool(self.to) != (self.verb in (Verb.MOVE, Verb.LINK, Verb.UNLINK)):
            raise ValueError(f"{self.verb}: a path too many or too few")

    @property
    def sets_aside(self) -> bool:
        """True for a move into spooltop's own directory."""
        return self.verb is Verb.MOVE and is_aside(self.to) and not is_aside(self.path)

    @property
    def brings_back(self) -> bool:
        """True for a move out of spooltop's own directory."""
        return self.verb is Verb.MOVE and is_aside(self.path) and not is_aside(self.to)


def inverse(changes: Sequence[FileChange]) -> tuple[FileChange, ...]:
    """The changes that reverse ``changes``. They run backwards, but what was set aside comes back in the order in which it left:
    the message last, when all that its program asks about it is there again. Deletions have no inverse."""
    backwards = [_inverse(change) for change in reversed(changes) if change.verb is not Verb.DELETE]
    out: list[FileChange] = []
    run: list[FileChange] = []
    for change in backwards:
        if change.brings_back:
            run.insert(0, change)
            continue
        out += run
        run = []
        out.append(change)
    return (*out, *run)


_OPPOSITE = {Verb.LINK: Verb.UNLINK, Verb.UNLINK: Verb.LINK, Verb.MKDIR: Verb.RMDIR, Verb.RMDIR: Verb.MKDIR}


def _inverse(change: FileChange) -> FileChange:
    match change.verb:
        case Verb.MOVE:
            return replace(change, path=change.to, to=change.path)
        case Verb.LINK | Verb.UNLINK:
            return FileChange(_OPPOSITE[change.verb], change.to, change.path)
        case Verb.MKDIR | Verb.RMDIR:
            return FileChange(_OPPOSITE[change.verb], change.path)
        case Verb.WRITE:
            return replace(change, text=change.before, before=change.text)
        case _:
            return change
