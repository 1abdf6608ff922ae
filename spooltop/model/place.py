"""Facts about the place that a target is in: its file system, folders, locks, limits. ``spooltop doctor`` judges them.

None means that it is not known, or not visible to this user.
"""

from __future__ import annotations

from collections.abc import Mapping

from spooltop.records import dataclass, field

__all__ = [
    "ClockState", "FolderState", "InotifyUse", "Leftovers", "MountState", "PlaceFacts", "PresenceFiles", "Share", "Trial",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class MountState:
    """The mount of the target. ``options`` are those of the mount and of the file system, mount(8)."""

    fs_type: str = "?"
    mountpoint: str = ""
    source: str = ""
    options: frozenset[str] = frozenset()
    local: bool = False
    """True if only one machine can have it mounted, as far as its type shows."""
    journal: bool = True
    """False on an ext4 without a journal."""


@dataclass(frozen=True, slots=True)
class FolderState:
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


@dataclass(frozen=True, slots=True)
class InotifyUse:
    """Limits of inotify(7) for this user, and what its processes use of them, as far as they are visible."""

    watches_limit: int | None = None
    instances_limit: int | None = None
    watches: int = 0
    instances: int = 0


@dataclass(frozen=True, slots=True)
class ClockState:
    """The clock of this machine, adjtimex(2). ``error`` is the largest possible error in seconds."""

    synchronised: bool | None = None
    error: float | None = None


@dataclass(frozen=True, slots=True)
class Share:
    """A directory that contains the target, or is in it, and that this machine offers to others. ``service`` is NFS or Samba,
    ``source`` the file that says so."""

    service: str
    path: str
    source: str


@dataclass(frozen=True, slots=True)
class PresenceFiles:
    """Presence files of consumers. ``stale`` are those of dead consumers without a claim; ``other_hosts`` names the machines of
    consumers that ran elsewhere, ``unknown`` counts those of which this cannot be told."""

    held: int = 0
    stale: int = 0
    unknown: int = 0
    other_hosts: tuple[str, ...] = ()
    complete: bool = True


@dataclass(frozen=True, slots=True)
class Leftovers:
    """Things that processes left behind when they were killed: ``trials`` are directories of ``doctor`` and ``bench``.
    ``journal_bytes`` is the size of everything that the journal keeps."""

    trials: tuple[str, ...] = ()
    journal_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Trial:
    """Result of something that was tried. ``error`` is empty if it worked; ``seconds`` is the time that it took."""

    error: str = ""
    seconds: float | None = None

    @property
    def worked(self) -> bool:
        return not self.error


@dataclass(frozen=True, slots=True)
class PlaceFacts:
    """All facts. ``folders`` are keyed by name: ``.`` is the target itself. ``trials`` is None if nothing was tried; ``untried``
    says why, if it was asked for and could not be."""

    path: str
    layout: str
    mount: MountState = MountState()
    folders: Mapping[str, FolderState] = field(default_factory=dict)
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
    group_members: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
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
