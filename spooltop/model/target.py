"""Target: the queue that a path or a URL names, as its backend identified it. Its name never holds a secret."""

from __future__ import annotations

import os
from collections.abc import Mapping

from .vocabulary import Action, Frozen

# Facts about the place that a target is in: its file system, folders, locks, limits. ``spooltop doctor`` judges them. None
# means that it is not known, or not visible to this user.


class MountState(Frozen):
    """The mount of the target. ``options`` are those of the mount and of the file system, mount(8)."""

    fs_type: str = "?"
    mountpoint: str = ""
    source: str = ""
    options: frozenset[str] = frozenset()
    local: bool = False
    """True if only one machine can have it mounted, as far as its type shows."""
    journal: bool = True
    """False on an ext4 without a journal."""


class FolderState(Frozen):
    """A box, the target itself, or ``.spooltop``. ``mount`` is the number of its mount: rename(2) from one mount to another fails
    even within a file system. ``error`` says why nothing is known of it."""

    name: str
    mode: int = 0
    uid: int = -1
    gid: int = -1
    owner: str = "?"
    group: str = "?"
    device: int = 0
    mount: int | None = None
    error: str = ""
    missing: bool = False


class InotifyUse(Frozen):
    """Limits of inotify(7) for this user, and what its processes use of them, as far as they are visible."""

    watches_limit: int | None = None
    instances_limit: int | None = None
    watches: int = 0
    instances: int = 0


class ClockState(Frozen):
    """The clock of this machine, adjtimex(2). ``error`` is the largest possible error in seconds."""

    synchronised: bool | None = None
    error: float | None = None


class Share(Frozen):
    """A directory that contains the target, or is in it, and that this machine offers to others. ``service`` is NFS or Samba,
    ``source`` the file that says so."""

    service: str
    path: str
    source: str


class PresenceFiles(Frozen):
    """Presence files of consumers. ``stale`` are those of dead consumers without a claim; ``other_hosts`` names the machines of
    consumers that ran elsewhere, ``unknown`` counts those of which this cannot be told."""

    held: int = 0
    stale: int = 0
    unknown: int = 0
    other_hosts: tuple[str, ...] = ()
    complete: bool = True


class Leftovers(Frozen):
    """Things that processes left behind when they were killed: ``trials`` are directories of ``doctor`` and ``bench``.
    ``journal_bytes`` is the size of everything that the journal keeps."""

    trials: tuple[str, ...] = ()
    journal_bytes: int | None = None


class Trial(Frozen):
    """Result of something that was tried. ``error`` is empty if it worked; ``seconds`` is the time that it took."""

    error: str = ""
    seconds: float | None = None

    @property
    def worked(self) -> bool:
        return not self.error


class PlaceFacts(Frozen):
    """All facts. ``folders`` are keyed by name: ``.`` is the target itself. ``trials`` is None if nothing was tried; ``untried``
    says why, if it was asked for and could not be."""

    path: str
    layout: str
    mount: MountState = MountState()
    folders: Mapping[str, FolderState] = {}
    inotify: InotifyUse = InotifyUse()
    clock: ClockState = ClockState()
    shares: tuple[Share, ...] = ()
    shares_unread: tuple[str, ...] = ()
    """Files that list shares and cannot be read."""
    presence: PresenceFiles = PresenceFiles()
    leftovers: Leftovers = Leftovers()
    trials: Mapping[str, Trial] | None = None
    untried: str = ""
    format: int | None = None
    """Number in ``.spooltop/format``; None if there is none."""
    format_known: int = 0
    """The highest number that this version knows."""
    group_members: Mapping[str, tuple[str, ...]] = {}
    user: str = "?"
    uid: int = -1
    proc_options: frozenset[str] = frozenset()
    """Options with which ``/proc`` is mounted."""
    boot_id: bool = True
    all_pids: bool = True
    """True in the first pid namespace, from which all processes are visible."""
    kernel: str = ""
    renameat2: bool = True
    ofd_locks: bool = True
    inotify_there: bool = True


_SECRET = ("password", "secret", "token")
"""Words in the names of options whose values are not shown."""


class Target(Frozen):
    """Identified queue.

    ``kind``: spool, mail, cursors, tickets, locks, layout, stream, or what a further backend calls its own. ``display_name`` is
    what was typed, without secrets: it is printed, audited and copied, and opens the same queue again. ``key`` is the same for
    all names of one queue: mutes, kept views and local journals are kept under it. ``where`` belongs to the backend.
    ``read_only`` says why nothing may be changed, ``commands`` how the queue's own program does it (``Capabilities.commands``).
    ``who_has`` stands before the name of a message in the list of its holders.
    """

    kind: str
    display_name: str
    key: str
    where: object = None
    read_only: str | None = None
    who_has: str = "who has"
    commands: Mapping[Action, str] = {}


def has_scheme(name: str) -> bool:
    """True for a URL, False for a path.

    >>> has_scheme("redis://host/0#jobs"), has_scheme("/var/spool/a:b")
    (True, False)
    """
    scheme, mark, _ = name.partition("://")
    return bool(mark) and scheme.replace("+", "").isalnum() and scheme.isascii()


def full_name(name: str) -> str:
    """Returns a name that means the same in every directory: a path becomes absolute, a URL stays.

    >>> full_name("redis://host/0#jobs"), full_name("/var/spool/../spool/jobs")
    ('redis://host/0#jobs', '/var/spool/jobs')
    """
    return name if has_scheme(name) else os.path.abspath(name)


def has_password(name: str) -> bool:
    """True for a URL with a password, or another secret, in it.

    >>> has_password("redis://me:secret@host"), has_password("redis://host?password=x"), has_password("redis://me@host")
    (True, True, False)
    """
    if not has_scheme(name):
        return False
    place, _, options = name.partition("://")[2].partition("#")[0].partition("?")
    secret = any(word in one.partition("=")[0].lower() for one in options.split("&") for word in _SECRET)
    return secret or ":" in place.rpartition("@")[0]


def without_secrets(name: str) -> str:
    """Returns a path as it is, and a URL without its user, and without options that hold a secret.

    >>> without_secrets("redis://me:secret@host:6379/0?password=x&db=1#jobs/workers"), without_secrets("/a@b")
    ('redis://host:6379/0?db=1#jobs/workers', '/a@b')
    """
    if not has_scheme(name):
        return name
    scheme, _, rest = name.partition("://")
    before, hash, fragment = rest.partition("#")
    place, _, options = before.partition("?")
    if "@" in place:  # the last one: a password may hold slashes
        place = place.rpartition("@")[2]
    kept = "&".join(one for one in options.split("&") if one and not any(word in one.lower() for word in _SECRET))
    return f"{scheme}://{place}{'?' if kept else ''}{kept}{hash}{fragment}"
