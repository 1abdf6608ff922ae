"""Facts about the place that a target is in, for ``spooltop doctor``, and a directory in which something can be tried."""

from __future__ import annotations

import glob
import grp
import os
import re
import shlex
from collections.abc import Iterator, Mapping
from contextlib import suppress

from spooltop.engine import host
from spooltop.engine.dirs import FORMAT, OWN, SpoolDirs
from spooltop.engine.files import OFD_LOCKS
from spooltop.engine.host import PROC
from spooltop.engine.names import parse
from spooltop.engine.presence import CONSUMERS, look
from spooltop.engine.syscalls import HAS_INOTIFY, HAS_RENAMEAT2, clock_state
from spooltop.model import ClockState, FolderState, InotifyUse, Leftovers, MountState, PlaceFacts, PresenceFiles, Share, Trial
from spooltop.model.vocabulary import ASIDE, LIVE

from ..access import group_name, user_name
from .processes import Processes
from .scan import opened
from .storage import is_local, mount_of, mounts
from .trials import left_behind, trial_parent, try_all

# Facts about the machine: limits of inotify and their use, the clock, ``/proc``, and directories that others may mount.

_EXPORTS = ("etc/exports", "etc/exports.d/*.exports", "proc/fs/nfsd/exports", "var/lib/nfs/etab")
_SAMBA = "etc/samba/smb.conf"
_FILE_LIMIT = 1 << 20


def inotify_use(uid: int) -> InotifyUse:
    """Counts what the processes of ``uid`` use, as far as their descriptors are visible, and reads the limits, inotify(7)."""
    seen = Processes().watchers(frozenset())
    instances, watches = seen.used.get(uid, (0, 0))
    most_instances, most_watches = seen.most
    return InotifyUse(most_watches, most_instances, watches, instances)


def clock() -> ClockState:
    """Asks the kernel whether its clock is synchronised."""
    try:
        return ClockState(*clock_state())
    except OSError:
        return ClockState()


def proc_options() -> frozenset[str]:
    """Returns the options with which ``/proc`` is mounted; of several mounts those of the last, which is the one in sight."""
    there = [mount.options for mount in mounts() if mount.mountpoint == PROC and mount.fs_type == "proc"]
    return there[-1] if there else frozenset()


def shares(path: str, root: str = "/") -> tuple[tuple[Share, ...], tuple[str, ...]]:
    """Returns the directories offered to other machines that contain ``path`` or are in it, and the files that list such
    directories but cannot be read. ``root`` is the directory below which the files are looked for."""
    found: list[Share] = []
    unread: list[str] = []
    for pattern in (*_EXPORTS, _SAMBA):
        service, read = ("Samba", _samba) if pattern == _SAMBA else ("NFS", _exported)
        for name in sorted(glob.glob(os.path.join(glob.escape(root), pattern))):  # noqa: PTH207  Path.glob takes no absolute ones
            try:
                with open(name, encoding="utf-8", errors="surrogateescape") as file:
                    text = file.read(_FILE_LIMIT)
            except FileNotFoundError:
                continue
            except OSError:
                unread.append(name)
                continue
            found += [Share(service, one, name) for one in read(text) if _related(one, path)]
    first = {(share.service, share.path): share for share in reversed(found)}
    return tuple(sorted(first.values(), key=lambda share: (share.service, share.path))), tuple(unread)


def _exported(text: str) -> Iterator[str]:
    """Yields the directories that an NFS server exports: the first word of each line, in /etc/exports (exports(5)) and in the
    list of the kernel alike."""
    for line in text.replace("\\\n", " ").splitlines():
        try:
            # ``\040`` and its like, with which blanks in paths are written
            words = shlex.split(re.sub(r"\\([0-7]{3})", lambda found: f"'{chr(int(found[1], 8))}'", line), comments=True)
        except ValueError:
            continue
        if words and words[0].startswith("/"):
            yield words[0]


def _samba(text: str) -> Iterator[str]:
    """Yields the values of ``path`` in smb.conf(5)."""
    for line in text.splitlines():
        key, equals, value = line.strip().partition("=")
        if equals and key.strip().lower() in ("path", "directory") and value.strip().startswith("/"):
            yield value.strip()


def _related(one: str, path: str) -> bool:
    one, path = os.path.realpath(one), os.path.realpath(path)
    return os.path.commonpath((one, path)) in (one, path)


# Collects all facts about the place of a target. Without ``write`` it changes nothing.

_PRESENCES = 10_000
_MEMBERS = 20


def collect(path: str, layout: str, *, write: bool = False) -> PlaceFacts:
    """Returns the facts about the target ``path``. With ``write`` it also tries what the guarantees rest on, in a hidden
    directory in ``tmp``. Raises ``OSError`` if the target cannot be opened."""
    trials, untried = _tried(path, layout) if write else (None, "")
    with opened(path, follow=True) as root:
        folders, mount = _folders(root, layout), _mount(root)
    uid = os.geteuid()
    found, unread = shares(path)
    return PlaceFacts(
        path, layout, mount, folders, inotify_use(uid), clock(), found, unread, _presence(path, layout),
        Leftovers(tuple(left_behind(trial_parent(path))), _journal_bytes(path)), trials, untried,
        _format(path), int(FORMAT), _members(folders), user_name(uid), uid, proc_options(), bool(host.boot_id()),
        host.sees_all_pids(), os.uname().release, HAS_RENAMEAT2, OFD_LOCKS, HAS_INOTIFY,
    )  # fmt: skip


def _tried(path: str, layout: str) -> tuple[Mapping[str, Trial] | None, str]:
    parent = trial_parent(path)
    if layout != "spool" or parent == path:
        return None, "there is no tmp of a spool here, and nothing is written elsewhere"
    try:
        return try_all(parent), ""
    except OSError as error:
        return None, f"a directory in tmp cannot be made: {error.strerror or error}"


def _mount(fd: int) -> MountState:
    mount = mount_of(fd)
    if mount is None:
        return MountState()
    local, journal = is_local(mount), not host.lacks_journal(fd)
    return MountState(mount.fs_type, mount.mountpoint, mount.source, mount.options, local, journal)


def _folders(root: int, layout: str) -> dict[str, FolderState]:
    names = (".",) if layout not in ("spool", "mail") else (".", *LIVE, OWN, *(f"{OWN}/{box}" for box in ASIDE))
    return {name: _folder(name, root) for name in names}


def _folder(name: str, root: int) -> FolderState:
    try:
        found = os.lstat(name, dir_fd=root)
    except FileNotFoundError:
        return FolderState(name, missing=True)
    except OSError as error:
        return FolderState(name, error=error.strerror or str(error))
    mount, why = None, ""
    try:
        with opened(name, root) as fd:
            mount = host.mount_number(fd)
    except OSError as error:
        why = error.strerror or str(error)
    return FolderState(
        name, found.st_mode, found.st_uid, found.st_gid, user_name(found.st_uid), group_name(found.st_gid), found.st_dev, mount,
        why,
    )  # fmt: skip


def _members(folders: Mapping[str, FolderState]) -> dict[str, tuple[str, ...]]:
    """Returns the members of the groups of the folders, as group(5) lists them."""
    found = {}
    for gid in {folder.gid for folder in folders.values() if folder.gid >= 0}:
        with suppress(KeyError):
            group = grp.getgrgid(gid)
            found[group.gr_name] = tuple(group.gr_mem[:_MEMBERS])
    return found


def _presence(path: str, layout: str) -> PresenceFiles:
    """Asks for the lock of each presence file, without taking it."""
    if layout != "spool":
        return PresenceFiles()
    here = host.this_machine()
    held = stale = unknown = 0
    hosts: set[str] = set()
    complete = False
    with suppress(OSError), SpoolDirs(path) as dirs:
        consumers = dirs.private_dir(CONSUMERS)
        names = [] if consumers is None else [name for name in dirs.files.list(consumers) if not name.startswith(".")]
        claimed = [] if dirs.cur is None else dirs.files.list(dirs.cur)
        tokens = {parse(name, claimed=True).token for name in claimed}
        for name in names[:_PRESENCES]:
            found = look(dirs, name)
            if found.host is not None and found.host != here.host:
                hosts.add(found.host)
            held += found.state == "held"
            unknown += found.state not in ("held", "free", "missing")
            stale += found.state == "free" and name not in tokens
        complete = len(names) <= _PRESENCES
    return PresenceFiles(held, stale, unknown, tuple(sorted(hosts)), complete=complete)


def _journal_bytes(path: str) -> int | None:
    """Returns the size of the files directly in ``.spooltop``: the journal and its older parts, logs and counters."""
    with suppress(OSError), os.scandir(os.path.join(path, OWN)) as entries:
        return sum(one.stat(follow_symlinks=False).st_size for one in entries if one.is_file(follow_symlinks=False))
    return None


def _format(path: str) -> int | None:
    with suppress(OSError), open(os.path.join(path, OWN, "format"), encoding="ascii", errors="replace") as file:
        text = file.read(16).strip()
        return int(text) if text.isdigit() else None
    return None
