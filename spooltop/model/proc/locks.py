"""Parser for the kernel's table of locks: ``/proc/locks`` and the ``lock:`` lines of fdinfo, proc_locks(5). Pure."""

from __future__ import annotations

from spooltop.patterns import pattern
from spooltop.records import dataclass

__all__ = ["Device", "LockLine", "parse_locks"]

_LINE = pattern(
    rb"(\d+):\s*(?:(->)\s*)?(FLOCK|POSIX|OFDLCK|LEASE|DELEG|ACCESS)\s+(\S+)\s+(\S+)\s+(-?\d+)\s+([0-9a-fA-F]+):([0-9a-fA-F]+):(\d+)\s"
)
_KINDS = {b"FLOCK": "flock", b"POSIX": "posix", b"OFDLCK": "ofd"}

Device = tuple[int, int]


@dataclass(frozen=True, slots=True)
class LockLine:
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
        found = _LINE.match(raw + b" ")
        if found is None or found.group(3) not in _KINDS:
            continue
        device = (int(found.group(7), 16), int(found.group(8), 16))
        kind, waits = _KINDS[found.group(3)], found.group(2) is not None
        lines.append(LockLine(kind, waits, int(found.group(6)), device, int(found.group(9)), found.group(5) == b"WRITE"))
    return lines
