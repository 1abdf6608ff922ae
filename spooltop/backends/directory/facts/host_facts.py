"""Facts about the machine: limits of inotify and their use, the clock, ``/proc``, and directories that others may mount."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterator, Sequence

from spooltop.engine.system.host import PROC
from spooltop.engine.system.syscalls import clock_state
from spooltop.model.proc import parse_details
from spooltop.model.target import ClockState, InotifyUse, Share

__all__ = ["clock", "inotify_use", "proc_options", "shares"]

_EXPORTS = ("/etc/exports", "/etc/exports.d", "/proc/fs/nfsd/exports", "/var/lib/nfs/etab")
_SAMBA = "/etc/samba/smb.conf"
_FILE_LIMIT = 1 << 20


def inotify_use(uid: int, proc: str = PROC) -> InotifyUse:
    """Counts what the processes of ``uid`` use, as far as their descriptors are visible, and reads the limits, inotify(7)."""
    watches = instances = 0
    for pid in _numbers(proc):
        try:
            if os.stat(f"{proc}/{pid}").st_uid != uid:
                continue
            fds = [fd for fd in os.listdir(f"{proc}/{pid}/fd") if _is_inotify(f"{proc}/{pid}/fd/{fd}")]
            instances += len(fds)
            watches += sum(_text(f"{proc}/{pid}/fdinfo/{fd}").count("inotify wd:") for fd in fds)
        except OSError:
            continue  # it has ended, or its descriptors are not visible
    return InotifyUse(_limit(proc, "watches"), _limit(proc, "instances"), watches, instances)


def _limit(proc: str, name: str) -> int | None:
    """Returns the limit of the machine or that of the user namespace, whichever is lower."""
    both = (_number(f"{proc}/sys/fs/inotify/max_user_{name}"), _number(f"{proc}/sys/user/max_inotify_{name}"))
    return min((one for one in both if one is not None), default=None)


def clock() -> ClockState:
    """Asks the kernel whether its clock is synchronised."""
    try:
        return ClockState(*clock_state())
    except OSError:
        return ClockState()


def proc_options(proc: str = PROC) -> frozenset[str]:
    """Returns the options with which ``proc`` is mounted; of several mounts those of the last, which is the one in sight."""
    found: frozenset[str] = frozenset()
    for _, point, kind, _, options in parse_details(_text(f"{proc}/self/mountinfo").splitlines()):
        if point == proc and kind == "proc":
            found = options
    return found


def shares(path: str, root: str = "/") -> tuple[tuple[Share, ...], tuple[str, ...]]:
    """Returns the directories offered to other machines that contain ``path`` or are in it, and the files that list such
    directories but cannot be read. ``root`` is the directory below which the files are looked for."""
    found: list[Share] = []
    unread: list[str] = []
    for name, service, parse in _listed(root):
        try:
            with open(name, encoding="utf-8", errors="surrogateescape") as file:
                text = file.read(_FILE_LIMIT)
        except FileNotFoundError:
            continue
        except OSError:
            unread.append(name)
            continue
        found += [Share(service, one, name) for one in parse(text) if _related(one, path)]
    first = {(share.service, share.path): share for share in reversed(found)}
    return tuple(sorted(first.values(), key=lambda share: (share.service, share.path))), tuple(unread)


def _listed(root: str) -> Iterator[tuple[str, str, Callable[[str], Iterator[str]]]]:
    for one in _EXPORTS:
        name = os.path.join(root, one.lstrip("/"))
        if os.path.isdir(name):
            yield from ((os.path.join(name, each), "NFS", _exported) for each in sorted(os.listdir(name)) if _is_exports(each))
        else:
            yield name, "NFS", _exported
    yield os.path.join(root, _SAMBA.lstrip("/")), "Samba", _samba


def _is_exports(name: str) -> bool:
    return name.endswith(".exports") and not name.startswith(".")


def _exported(text: str) -> Iterator[str]:
    """Yields the directories of exports(5), which the kernel's list has in the same form: the first word of each line."""
    for line in text.replace("\\\n", " ").splitlines():
        try:
            words = shlex.split(_octal(line), comments=True)
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


def _octal(line: str) -> str:
    """Decodes ``\\040`` and its like, with which exports(5) writes blanks in paths."""
    first, *rest = line.split("\\")
    return first + "".join(
        f"'{chr(int(part[:3], 8))}'{part[3:]}" if part[:3].isdigit() and not set(part[:3]) & set("89") else "\\" + part
        for part in rest
    )


def _related(one: str, path: str) -> bool:
    one, path = os.path.realpath(one), os.path.realpath(path)
    return os.path.commonpath((one, path)) in (one, path)


def _numbers(proc: str) -> Sequence[str]:
    try:
        return [name for name in os.listdir(proc) if name.isdigit()]
    except OSError:
        return ()


def _is_inotify(link: str) -> bool:
    try:
        return os.readlink(link) == "anon_inode:inotify"
    except OSError:
        return False


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read()
    except OSError:
        return ""


def _number(path: str) -> int | None:
    text = _text(path).strip()
    return int(text) if text.isdigit() else None
