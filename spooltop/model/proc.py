"""Tables of the kernel below /proc: locks and mounts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from .vocabulary import Frozen

# Parser for the kernel's table of locks: ``/proc/locks`` and the ``lock:`` lines of fdinfo, proc_locks(5). Pure.

_LINE = (
    rb"(\d+):\s*(?:(->)\s*)?(FLOCK|POSIX|OFDLCK|LEASE|DELEG|ACCESS)\s+(\S+)\s+(\S+)\s+(-?\d+)\s+([0-9a-fA-F]+):([0-9a-fA-F]+):(\d+)\s"
)
_KINDS = {b"FLOCK": "flock", b"POSIX": "posix", b"OFDLCK": "ofd"}

Device = tuple[int, int]


class LockLine(Frozen):
    """A line of the table: ``kind`` flock, posix or ofd; ``pid`` is -1 or 0 where the kernel gives none; ``device`` (major,
    minor); ``exclusive``: a write lock, which except for a flock needs a descriptor open for writing."""

    kind: str
    waits: bool
    pid: int
    device: Device
    inode: int
    exclusive: bool = True


def parse_locks(text: bytes) -> list[LockLine]:
    """Parses ``/proc/locks`` or the ``lock:`` lines of fdinfo. Leases and delegations are no locks."""
    lines = []
    for raw in text.splitlines():
        found = re.match(_LINE, raw + b" ")
        if found is None or found.group(3) not in _KINDS:
            continue
        device = (int(found.group(7), 16), int(found.group(8), 16))
        kind, waits = _KINDS[found.group(3)], found.group(2) is not None
        lines.append(LockLine(kind, waits, int(found.group(6)), device, int(found.group(9)), found.group(5) == b"WRITE"))
    return lines


# The parser of ``/proc/self/mountinfo``, proc(5).

class Mount(Frozen):
    """A mount of the table. ``device`` is (major, minor) as ``/proc/locks`` prints it, also where ``st_dev`` differs (btrfs).
    ``readonly`` says that no mount of the file system can be written; a mount of it may be read-only even if it is not:
    statvfs(3) tells. ``source`` is what is mounted (a device, a server), ``options`` are those of the mount and of the file
    system."""

    number: int
    device: Device
    mountpoint: str
    fs_type: str
    readonly: bool
    source: str = ""
    options: frozenset[str] = frozenset()


def parse_mounts(lines: Iterable[str]) -> Iterator[Mount]:
    """Yields the mounts in their order. A line that makes no sense is left out: the kernel may add fields, never remove them.

    >>> line = "40 27 0:39 /a /srv/a\\\\040b {},relatime - btrfs /dev/sda {},compress"
    >>> [(one.number, one.device, one.mountpoint, one.fs_type) for one in parse_mounts([line.format("rw", "ro"), "nonsense"])]
    [(40, (0, 39), '/srv/a b', 'btrfs')]
    >>> [(one.readonly, sorted(one.options)) for one in parse_mounts([line.format("ro", "rw"), line.format("rw", "ro")])]
    [(False, ['compress', 'relatime', 'ro', 'rw']), (True, ['compress', 'relatime', 'ro', 'rw'])]
    """
    for line in lines:
        front, dash, back = line.partition(" - ")
        fields, tail = front.split(" "), back.split(" ")
        if not dash or len(fields) < 6 or len(tail) < 3:
            continue
        major, _, minor = fields[2].partition(":")
        if fields[0].isdigit() and major.isdigit() and minor.isdigit():
            own, options = fields[5].split(","), tail[2].rstrip("\n").split(",")
            yield Mount(
                int(fields[0]), (int(major), int(minor)), _unescaped(fields[4]), tail[0], "ro" in options, _unescaped(tail[1]),
                frozenset((*own, *options)),
            )  # fmt: skip


def _unescaped(field: str) -> str:
    """A path without its octal escapes (blank, tab, newline, backslash, ``#``)."""
    return re.sub(r"\\([0-7]{3})", lambda escaped: chr(int(escaped[1], 8)), field)
