"""Collects all facts about the place of a target. Without ``write`` it changes nothing."""

from __future__ import annotations

import grp
import os
from collections.abc import Mapping

from spooltop.engine.dirs import FORMAT, OWN, SpoolDirs
from spooltop.engine.presence import CONSUMERS, look
from spooltop.engine.system import host
from spooltop.engine.system.file_locks import OFD_LOCKS
from spooltop.engine.system.syscalls import HAS_INOTIFY, HAS_RENAMEAT2
from spooltop.model.proc import parse_details
from spooltop.model.target import FolderState, Leftovers, MountState, PlaceFacts, PresenceFiles, Trial
from spooltop.model.vocabulary import Box

from ...access import group_name, user_name
from ..storage.filesystem import is_local, mount_of
from .host_facts import clock, inotify_use, proc_options, shares
from .trial_dir import left_behind, trial_parent
from .trials import try_all

__all__ = ["collect"]

_BOXES = (Box.TMP.value, Box.NEW.value, Box.CUR.value)
_ASIDE = tuple(f"{OWN}/{box.value}" for box in (Box.HELD, Box.REJECTED, Box.TRASH))
_PRESENCES = 10_000
_MEMBERS = 20
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


def collect(path: str, layout: str, *, write: bool = False) -> PlaceFacts:
    """Returns the facts about the target ``path``. With ``write`` it also tries what the guarantees rest on, in a hidden
    directory in ``tmp``. Raises ``OSError`` if the target cannot be opened."""
    trials, untried = _tried(path, layout) if write else (None, "")
    root = os.open(path, _DIRECTORY)
    try:
        folders = _folders(root, layout)
        mount = _mount(root)
    finally:
        os.close(root)
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
    with open(f"{host.PROC}/self/mountinfo", encoding="utf-8", errors="surrogateescape") as table:
        for number, point, kind, source, options in parse_details(table):
            if number == mount.number:
                return MountState(kind, point, source, options, is_local(mount), journal=not host.lacks_journal(fd))
    return MountState(mount.fs_type, mount.mountpoint, local=is_local(mount))


def _folders(root: int, layout: str) -> dict[str, FolderState]:
    names = (".",) if layout not in ("spool", "mail") else (".", *_BOXES, OWN, *_ASIDE)
    return {name: _folder(name, root) for name in names}


def _folder(name: str, root: int) -> FolderState:
    try:
        found = os.stat(name, dir_fd=root, follow_symlinks=False)
    except FileNotFoundError:
        return FolderState(name, missing=True)
    except OSError as error:
        return FolderState(name, error=error.strerror or str(error))
    mount: int | None = None
    error_words = ""
    try:
        fd = os.open(name, _DIRECTORY | os.O_NOFOLLOW, dir_fd=root)
        try:
            mount = host.mount_number(fd)
        finally:
            os.close(fd)
    except OSError as error:
        error_words = error.strerror or str(error)
    return FolderState(
        name, found.st_mode, found.st_uid, found.st_gid, user_name(found.st_uid), group_name(found.st_gid), found.st_dev, mount,
        error_words,
    )  # fmt: skip


def _members(folders: Mapping[str, FolderState]) -> dict[str, tuple[str, ...]]:
    """Returns the members of the groups of the folders, as group(5) lists them."""
    found = {}
    for gid in {folder.gid for folder in folders.values() if folder.gid >= 0}:
        try:
            group = grp.getgrgid(gid)
        except KeyError:
            continue
        found[group.gr_name] = tuple(group.gr_mem[:_MEMBERS])
    return found


def _presence(path: str, layout: str) -> PresenceFiles:
    """Asks for the lock of each presence file, without taking it."""
    if layout != "spool":
        return PresenceFiles()
    here = host.this_machine()
    held = stale = unknown = 0
    hosts: set[str] = set()
    try:
        dirs = SpoolDirs(path)
    except OSError:
        return PresenceFiles(complete=False)
    try:
        consumers = dirs.private_dir(CONSUMERS)
        names = [] if consumers is None else [name for name in dirs.files.list(consumers) if not name.startswith(".")]
        claims = _claimed(dirs)
        for name in names[:_PRESENCES]:
            found = look(dirs, name)
            if found.host is not None and found.host != here.host:
                hosts.add(found.host)
            held += found.state == "held"
            unknown += found.state not in ("held", "free", "missing")
            stale += found.state == "free" and name not in claims
    except OSError:
        return PresenceFiles(held, stale, unknown, tuple(sorted(hosts)), complete=False)
    finally:
        dirs.close()
    return PresenceFiles(held, stale, unknown, tuple(sorted(hosts)), complete=len(names) <= _PRESENCES)


def _claimed(dirs: SpoolDirs) -> set[str]:
    """Returns the tokens in the names of all claims."""
    from spooltop.engine.names import parse

    names = [] if dirs.cur is None else dirs.files.list(dirs.cur)
    return {token for name in names if (token := parse(name, claimed=True).token) is not None}


def _journal_bytes(path: str) -> int | None:
    """Returns the size of the files directly in ``.spooltop``: the journal and its older parts, logs and counters."""
    total = 0
    try:
        with os.scandir(os.path.join(path, OWN)) as entries:
            for entry in entries:
                if entry.is_file(follow_symlinks=False):
                    total += entry.stat(follow_symlinks=False).st_size
    except OSError:
        return None
    return total


def _format(path: str) -> int | None:
    try:
        with open(os.path.join(path, OWN, "format"), encoding="ascii", errors="replace") as file:
            text = file.read(16).strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None
