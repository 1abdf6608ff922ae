"""Finds the process that holds the presence lock of a claim where it is not the process that the presence file names.

A child that inherits the descriptor keeps the lock after its parent has ended, and anyone who may write the file can lock it too.
Descriptors (proc(5): fd, fdinfo) distinguish the two cases: parent and child share one open file, so the file offset of the child
is where the parent stopped writing. The result names a process to look at; the verdict depends on the lock alone.
"""

from __future__ import annotations

from collections.abc import Mapping

from spooltop.engine.presence import Presence
from spooltop.model.text import escape
from spooltop.records import dataclass

from .processes import Process, Processes

__all__ = ["ClaimHolders", "Holder"]

_AGAIN_AFTER = 5.0
"""Seconds after which the descriptors of all processes are read again; for tokens not seen before after one."""
_SOON = 1.0


@dataclass(frozen=True, slots=True)
class Holder:
    """Holder of the lock. ``process`` is None where it is not visible. ``words`` says who it is, "" for the consumer
    itself."""

    process: Process | None
    words: str


@dataclass(frozen=True, slots=True)
class _Found:
    pid: int
    inherited: bool


class ClaimHolders:
    """Remembers from look to look what was found, and asks again only for what is not known."""

    def __init__(self, processes: Processes) -> None:
        self._processes = processes
        self._verified: set[tuple[str, int]] = set()
        self._found: dict[str, tuple[_Found, ...]] = {}
        self._looked = float("-inf")

    def look(self, held: Mapping[str, Presence]) -> dict[str, Holder]:
        """The holder of each token in ``held``, whose locks were just met."""
        here = self._processes.machine()
        named: dict[str, Process | None] = {}
        asked: dict[str, Presence] = {}
        opened: dict[int, set[tuple[int, int]] | None] = {}
        for token, seen in held.items():
            ours = bool(seen.boot_id) and (seen.boot_id, seen.pid_ns) == (here.boot_id, here.pid_ns)
            process = self._named(seen) if ours else None
            named[token] = process
            if process is None or not self._is_holder(token, seen, process, opened):
                asked[token] = seen
        self._verified = {one for one in self._verified if one[0] in held}
        if asked:
            self._find(asked)
        out = {token: Holder(process, "") for token, process in named.items() if token not in asked}
        for token, seen in asked.items():
            ours = bool(seen.boot_id) and (seen.boot_id, seen.pid_ns) == (here.boot_id, here.pid_ns)
            out[token] = self._holder(seen, named[token], self._found.get(token, ()), ours=ours)
        return out

    def _named(self, seen: Presence) -> Process | None:
        """The process that the file names, while it is the same one; a zombie has let go of everything."""
        if seen.pid is None or not self._processes.exists(seen.pid):
            return None
        process = self._processes.process(seen.pid)
        if process is None:
            return Process(seen.pid)  # hidden (hidepid), but there
        same = seen.start is None or process.started is None or abs(process.started - self._processes.seconds(seen.start)) < 0.02
        return process if same and not process.zombie else None

    def _is_holder(
        self, token: str, seen: Presence, process: Process, opened: dict[int, set[tuple[int, int]] | None]
    ) -> bool:
        """True where it has the file open, or its descriptors cannot be read: it lives, and the lock is held. ``opened`` is what
        processes have open, as far as this look has asked."""
        key = (token, process.pid)
        if key not in self._verified:
            if process.pid not in opened:
                opened[process.pid] = self._processes.files_of(process.pid)
            files = opened[process.pid]
            if files is not None and seen.file not in files:
                return False
            self._verified.add(key)
        return True

    def _find(self, asked: Mapping[str, Presence]) -> None:
        now = self._processes.boottime()
        if now - self._looked < (_AGAIN_AFTER if asked.keys() <= self._found.keys() else _SOON):
            return
        self._looked = now
        files = {seen.file: token for token, seen in asked.items() if seen.file is not None}
        self._found = dict.fromkeys(asked, ())
        opened = self._processes.descriptors(set(files)).by_file
        for file, descriptors in opened.items():
            token = files[file]
            found: dict[int, _Found] = {}
            for one in descriptors:
                at = self._processes.locked_at(one.pid, one.number, file[1])
                if at is not None:
                    found[one.pid] = _Found(one.pid, at == asked[token].size)
            self._found[token] = tuple(found.values())

    def _holder(self, seen: Presence, named: Process | None, found: tuple[_Found, ...], *, ours: bool) -> Holder:
        itself = next((one for one in found if seen.pid in self._processes.numbers(one.pid)[1:]), None) if not ours else None
        if itself is not None:
            return Holder(self._processes.process(itself.pid), "")
        exited = f"worker {seen.pid} has exited; " if ours and named is None and seen.pid is not None else ""
        # The first that inherited it; the others mostly are its children.
        one = min(found, key=lambda one: (not one.inherited, one.pid), default=None)
        if one is None:
            return Holder(None, f"{exited}held; holder not visible")
        process = self._processes.process(one.pid, described=True) or Process(one.pid)
        who = f"{one.pid} ({escape(process.command)})" if process.command else str(one.pid)
        if not one.inherited:
            stranger = "not its child" if exited else "not its consumer"
            return Holder(process, f"{exited}{who}, {stranger}, holds its presence lock; stop {one.pid}")
        if exited:
            return Holder(process, f"{exited}its command {who} still runs and holds the claim; stop {one.pid}")
        return Holder(process, f"its command {who} holds the claim; stop {one.pid}")
