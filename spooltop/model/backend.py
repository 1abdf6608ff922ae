"""Interface of a backend: it identifies the targets of its kinds, and opens what reads and changes them.

``backends.registry`` finds the backend of a target; ``control`` uses it. A further backend implements ``Backend`` and calls
``registry.register``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct, field

from spooltop.errors import SpooltopError

from .protocols import Operator, Reader
from .queue import Queue, QueueOptions
from .redact import Redactor
from .target import Target
from .vocabulary import Action, Box, Key, Lock

if TYPE_CHECKING:
    from .snapshot import Observation


# Actions that are allowed on a target, and why the others are not.

_NO_MESSAGES = (Action.UNDO, Action.SET_CURSOR, Action.UNLOCK, Action.PAUSE, Action.RESUME)


class Capabilities(Struct, frozen=True):
    """The reason for each action that is not available, in words that say what to do. An action that is not named is allowed.
    ``commands`` are those of the queue's own program that do what is not available here, with ``{id}`` for the message. ``boxes``
    are those that an action takes messages from; an action that is not named takes them from where it does in a spool."""

    refusals: Mapping[Action, str] = field(default_factory=dict)
    commands: Mapping[Action, str] = field(default_factory=dict)
    boxes: Mapping[Action, tuple[Box, ...]] = field(default_factory=dict)

    def why_not(self, action: Action) -> str | None:
        """Returns the reason why ``action`` is not available, or None if it is."""
        return self.refusals.get(action)

    def why_not_from(self, action: Action, box: Box | None) -> str | None:
        """Returns the reason why ``action`` does not take messages from ``box``, or None if it does."""
        reason, boxes = self.why_not(action), self.boxes.get(action, ())
        if reason is not None or not boxes or box is None or box in boxes:
            return reason
        return f"not possible for messages in {box} here, only in {', '.join(boxes)}"

    def replaced(self, action: Action, why: str | None) -> Capabilities:
        """Returns these with another reason for ``action``; None: it is available."""
        refusals = {one: reason for one, reason in self.refusals.items() if one is not action}
        return Capabilities(refusals if why is None else {**refusals, action: why}, self.commands, self.boxes)

    def command(self, action: Action, id: str) -> str:
        """Returns the command of the queue's own program for the message ``id``, quoted for a shell; empty where it has none, or
        the action is available here."""
        return command_for(self.commands.get(action, ""), id) if action in self.refusals else ""

    @property
    def change(self) -> bool:
        """True if at least one action that moves, makes or deletes messages is available."""
        return any(action not in self.refusals for action in Action if action not in _NO_MESSAGES)

    @staticmethod
    def nothing(reason: str, commands: Mapping[Action, str] | None = None) -> Capabilities:
        """Read-only, for one reason."""
        return Capabilities(dict.fromkeys(Action, reason), commands or {})


def command_for(template: str, id: str) -> str:
    """Fills the id into a command, quoted for a shell.

    >>> command_for("postsuper -d {id}", "3F2A1"), command_for("rm {id}", "a; b")
    ('postsuper -d 3F2A1', "rm 'a; b'")
    """
    import shlex  # only where somebody asks

    return template.replace("{id}", shlex.quote(id)) if template else ""


SPOOL = "spool"
"""The word for a job spool, where others name a layout."""


class OpenAs(Struct, frozen=True):
    """Options that decide what a path is. ``as_kind`` names it: ``spool`` treats a mail folder as a job spool, any other word is
    the layout of a directory. ``locks`` treats any other directory as one of lock files. ``cursor_files`` make a target of any
    directory. ``environ`` says where the user's own layouts are."""

    as_kind: str = ""
    locks: bool = False
    cursor_files: tuple[str, ...] = ()
    environ: Mapping[str, str] = field(default_factory=dict)

    @property
    def as_spool(self) -> bool:
        """True if a mail folder is a job spool."""
        return self.as_kind == SPOOL


class OpenSettings(Struct, frozen=True):
    """Options and settings with which a target is opened.

    ``read_only`` says why nothing may be changed. With ``watch`` the reader listens for changes. ``words`` are all settings as
    the environment writes them; ``hosts`` and ``pids`` are ``claims.hosts`` and ``claims.pids``. Messages in the trash expire
    after ``retention`` seconds (0: never), a lock without a holder is stale after ``stale_after`` seconds, and the holders of
    claims are described once they hold one for ``described_after`` seconds. ``redactor`` hides values. ``who_writes`` asks who
    writes the cursors. ``state`` is the folder of this user's own state, None without one. A change of the ``side_files`` (paths
    and globs) is a reason to look again.
    """

    read_only: str | None = None
    asked: OpenAs = field(default_factory=OpenAs)
    watch: bool = True
    clock: Callable[[], float] = time.time
    words: Mapping[str, str] = field(default_factory=dict)
    hosts: str = "any"
    pids: str = "any"
    retention: float = 0.0
    stale_after: float = 300.0
    described_after: float = 0.0
    redactor: Redactor = field(default_factory=Redactor)
    who_writes: bool = False
    state: str | None = None
    side_files: tuple[str, ...] = ()


class OpenedOperator(Struct, frozen=True):
    """Operator of a target. ``flags`` are the options that a command needs to open the target again. ``consumers`` looks at who
    takes what is moved to ``new``: the observation may be of the claims alone. ``keeps_trash``: what is purged goes to a trash
    that expires."""

    operator: Operator
    flags: tuple[str, ...] = ()
    consumers: Callable[[], Observation] | None = None
    keeps_trash: bool = False


class SideWatch(Protocol):
    """Thread that wakes the reader when something beside the queue changes."""

    def start(self) -> None: ...

    def stop(self) -> None:
        """Asks the thread to end."""

    def close(self) -> None:
        """Ends the thread and waits for it."""


class OpenedTarget(Struct, frozen=True):
    """Opened target. ``operator`` opens what changes it, on first use: reading does not wait for that; None for a target that
    has nothing to change."""

    reader: Reader
    operator: Callable[[], OpenedOperator] | None = None
    beside: SideWatch | None = None


class Backend(Protocol):
    """Kinds of queues that are read and changed by the same code."""

    name: str

    def identify(self, spec: str, asked: OpenAs) -> Target | None:
        """Identifies what ``spec`` (a path or a URL, as typed) names. None if it is none of this backend's; raises ``NotASpool``
        with the hint that fits, ``Unreadable``, ``UsageError`` for an invalid URL. Changes nothing."""

    def open(self, target: Target, settings: OpenSettings) -> OpenedTarget:
        """Opens a target that this backend identified. Raises ``SpooltopError``."""

    def queue(self, target: Target, options: QueueOptions) -> Queue:
        """Opens a target to put and to work, one that is not read-only. Raises ``Refused`` or ``NotASpool`` for what has no
        messages, or is served by its own program alone."""


class LockSource(Protocol):
    """Locks that lie elsewhere than the target and are shown among its own: the ticket queues of a server."""

    def look(self) -> tuple[Lock, ...]: ...

    def why_not(self, action: Action | None, key: Key) -> SpooltopError | None:
        """Returns why ``action`` (None: finding the holders) is not possible for the lock ``key``; None for a lock that is not
        of this source."""

    def close(self) -> None: ...
