"""The steps of one message with every word filled in, as the journal holds them, and their inverses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from spooltop.model.text import escape, unescape
from spooltop.model.vocabulary import Json

from ..queue_dirs import is_aside, is_location

Pin = tuple[int, int, int]
"""Identifies a file: device, inode, ctime in ns. All are 0 where no file is expected."""

_TEXT_AT_MOST = 65_536
_MOST = 1 << 64


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


class FileChange(Struct, frozen=True):
    """A change of the file at the location ``path``. ``to`` is the target of MOVE and LINK, and for UNLINK the location of the
    file under its other name. WRITE replaces the text ``before`` by ``text``; None: there is no such file."""

    verb: Verb
    path: str
    to: str = ""
    text: str | None = None
    before: str | None = None

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


def encode_changes(changes: Sequence[FileChange]) -> list[Json]:
    """The ``changes`` of an intent line."""
    encoded: list[Json] = []
    for change in changes:
        one: dict[str, Json] = {"do": change.verb.value, "path": escape(change.path)}
        if change.to:
            one["to"] = escape(change.to)
        if change.verb is Verb.WRITE:
            one |= {"text": change.text, "before": change.before}
        encoded.append(one)
    return encoded


def decode_changes(value: object) -> tuple[FileChange, ...]:
    """Reads the ``changes`` of an intent line. Raises ``ValueError``, also for a path that leads out."""
    if not isinstance(value, list) or not value:
        raise ValueError("changes are no list")
    return tuple(_decode(one) for one in value)


def _decode(value: object) -> FileChange:
    if not isinstance(value, dict):
        raise ValueError("a change is no object")
    verb = Verb(str(value.get("do")))
    path, to = value.get("path"), value.get("to", "")
    if not isinstance(path, str) or not isinstance(to, str):
        raise ValueError("a path is no text")
    path, to = unescape(path), unescape(to)
    if not is_location(path) or (to and not is_location(to)):
        raise ValueError("a path leads out of the queue")
    if bool(to) != (verb in (Verb.MOVE, Verb.LINK, Verb.UNLINK)):
        raise ValueError(f"{verb}: a path too many or too few")
    return FileChange(verb, path, to, _text(value, "text"), _text(value, "before"))


def _text(value: Mapping[str, Any], key: str) -> str | None:
    found = value.get(key)
    if found is not None and (not isinstance(found, str) or len(found) > _TEXT_AT_MOST):
        raise ValueError(f"{key} is no text")
    return found


def encode_pins(pins: Mapping[str, Pin]) -> dict[str, Json]:
    """The ``pins`` of an intent line."""
    return {escape(location): list(pin) for location, pin in pins.items()}


def decode_pins(value: object) -> dict[str, Pin]:
    """Reads the ``pins`` of an intent line. Raises ``ValueError``."""
    if not isinstance(value, dict):
        raise ValueError("pins are no object")
    pins = {unescape(location): _pin(numbers) for location, numbers in value.items()}
    if not all(map(is_location, pins)):
        raise ValueError("a pin lies outside")
    return pins


def _pin(numbers: object) -> Pin:
    if not isinstance(numbers, list) or len(numbers) != 3:
        raise ValueError("a pin is no triple")
    if not all(type(number) is int and 0 <= number < _MOST for number in numbers):
        raise ValueError("a pin is no number")
    dev, ino, ctime_ns = numbers
    return dev, ino, ctime_ns
