"""Each operation as a process under the real strace(1): killed at every call that changes a file, and every call of it failed.

What is tried is what strace saw the whole operation do, call by call. A kill comes at the entry of the call. An error is what the
call answers, without having been made. The spool and all that a command writes lie where the machine has its memory.
"""

from __future__ import annotations

import multiprocessing
import os
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

from tests.scratch import scratch

from .acts import NAMES, NOTHING, Ground, do
from .calls import CHANGES
from .figures import Figure
from .forked import Ended, Forked, NotTraced, Threads

__all__ = ["BAR", "NAME", "Shot", "judged", "planned", "run"]

NAME = "each operation as a process, killed at every changing system call, each call failed (strace)"
BAR = "0 lost, 0 doubled, undo or a rerun finishes, a clear line each time"

ERRORS = ("ENOSPC", "EDQUOT", "EIO", "EACCES", "EROFS", "EMFILE", "ESTALE")
KILL = "KILL"
CALL = re.compile(r"^(\w+)\((.*)$")
NEVER = {
    "mmap", "munmap", "mremap", "dup2", "dup3", "poll", "ppoll", "select", "pselect6", "epoll_wait", "epoll_pwait", "execve",
    "clone", "clone3",
}  # fmt: skip
"""Calls that do not concern files, or concern the process itself."""
CODES = {0, 1, 3, 5}
"""Exit codes allowed for a command in which something failed; 4 is not among them, because there is something to match."""
SETTINGS = "/etc/spooltop.toml"
"""What cannot be read of it ends a command as words that are wrong do. A thread of its own may read it."""
WORKERS = 2


@dataclass(frozen=True)
class Shot:
    """The ``number``-th ``call`` of that name (from 1) in a thread fails with ``what``, or the process is killed as it begins;
    ``acts`` do so many of it in one. A command reads in a thread that it may leave behind, and changes in the main thread."""

    call: str
    number: int
    what: str
    acts: tuple[str, ...]

    @property
    def rule(self) -> tuple[str, ...]:
        how = "signal=KILL" if self.what == KILL else f"error={self.what}"
        return self.call, "-e", f"inject={self.call}:{how}:when={self.number}"


def planned(lines: Mapping[str, Sequence[Sequence[str]]], base: str, what: str) -> list[Shot]:
    """Lists the targets in the traces of the acts: for a kill every call that changes something, for an error every call that
    concerns a path below ``base``, among them the streams of the command, but not stderr."""
    acts: dict[tuple[str, int], list[str]] = {}
    for act, trace in ((act, trace) for act, threads in lines.items() for trace in threads):
        seen: Counter[str] = Counter()
        for line in trace:
            found = CALL.match(line)
            if found is None or found[1] in NEVER:
                continue
            call, rest = found[1], found[2]
            seen[call] += 1
            changes = call in CHANGES or (call == "openat" and "O_CREAT" in rest)
            if ".err>" in rest or not (changes if what == KILL else base in rest):
                continue
            of = acts.setdefault((call, seen[call]), [])
            of += [act] if act not in of else []
    return [Shot(call, number, what, tuple(found)) for (call, number), found in acts.items()]


def judged(ground: Ground, what: str, ended: Ended) -> list[str]:
    """Returns what is wrong with the state that a shot left behind."""
    wrong = ground.lost()
    if what == KILL:
        return wrong + ground.finish()
    words = f"{ended.out}{ended.err}"
    allowed = {*CODES, *({NOTHING} if ground.act in ("requeue", "recover") else ()), *({2} if SETTINGS in ended.err else ())}
    if ended.code not in allowed:
        wrong.append(f"it ended with {ended.code}: {ended.err}")
    if "Traceback" in words or "this is a defect" in words:
        wrong.append(f"no clear line: {ended.err}")
    if ended.code == 0 and not ground.done:
        wrong.append(f"it says that it is done, and is not: {words}")
    if ended.code not in (0, NOTHING) and not ended.err.strip() and "failed" not in ended.out and "skipped" not in ended.out:
        wrong.append(f"it ended with {ended.code} and says nothing")
    wrong += [f"no line of ours: {line}" for line in ended.err.splitlines() if not line.startswith("spooltop: ")]
    return wrong if ended.code and ground.untouched else wrong + ground.finish()


class Range:
    """Grounds for some acts, and the process that does them."""

    def __init__(self, folder: Path, acts: Iterable[str]) -> None:
        self.folder = folder
        self.grounds = {act: Ground(act, folder / str(place)) for place, act in enumerate(acts)}
        for ground in self.grounds.values():  # what is remembered at the first time is, then
            ground.make()
            ground.finish()
        self.forked = Forked(folder, len(self.grounds), do)

    def traces(self) -> dict[str, Threads]:
        ended, lines = self.forked.traced([ground.make() for ground in self.grounds.values()], "%file,%desc")
        for ground, one in zip(self.grounds.values(), ended, strict=True):
            assert one.code == 0 and ground.done, (ground.act, one)
        return {act: lines[one.pid] for act, one in zip(self.grounds, ended, strict=True)}

    def shoot(self, shot: Shot) -> tuple[int, list[str]]:
        """(processes that it hit, what was wrong)."""
        grounds = [self.grounds[act] for act in shot.acts]
        ended, lines = self.forked.traced([ground.make() for ground in grounds], *shot.rule)
        hit, wrong = 0, []
        for ground, one in zip(grounds, ended, strict=True):
            calls = chain.from_iterable(lines[one.pid])
            struck = [line for line in calls if "(INJECTED)" in line or "killed by SIGKILL" in line]
            hit += bool(struck)
            at = f"{ground.act}, {shot.what} at {shot.call} {shot.number}"
            outcome = struck[0][:160] if struck else "not struck"
            wrong += [f"{at}: {words} [{outcome}]" for words in judged(ground, shot.what, one)]
        return hit, wrong


def shots(what: Sequence[str]) -> list[Shot]:
    """All of them. Raises ``NotTraced``."""
    with tempfile.TemporaryDirectory(prefix="spooltop-proof-", dir=scratch()) as folder:
        place = Range(Path(folder), NAMES)
        with place.forked:
            traces = place.traces()
    found = [shot for one in what for shot in planned(traces, folder, one)]
    return found if WHOLE else [thinned(at, one, traces) for at, one in enumerate(found)]


def thinned(at: int, shot: Shot, lines: Mapping[str, Sequence[Sequence[str]]]) -> Shot:
    """Without the acts of which this call changes nothing, but for one: the next of them for the next error."""
    if shot.what == KILL:
        return shot
    turn = shot.acts[(at + ERRORS.index(shot.what)) % len(shot.acts)]
    return replace(shot, acts=tuple(act for act in shot.acts if act == turn or changes(lines[act], shot)))


def changes(threads: Sequence[Sequence[str]], shot: Shot) -> bool:
    if shot.call in CHANGES:
        return True
    same = [[line for line in trace if line.startswith(f"{shot.call}(")] for trace in threads]
    return shot.call == "openat" and any("O_CREAT" in calls[shot.number - 1] for calls in same if len(calls) >= shot.number)


def struck(some: Sequence[Shot]) -> Iterator[tuple[Shot, int, list[str]]]:
    with tempfile.TemporaryDirectory(prefix="spooltop-proof-", dir=scratch()) as folder:
        place = Range(Path(folder), sorted({act for shot in some for act in shot.acts}))
        with place.forked:
            for shot in some:
                yield (shot, *place.shoot(shot))


def all_struck(some: Sequence[Shot]) -> list[tuple[Shot, int, list[str]]]:
    return list(struck(some))


WHOLE = bool(os.environ.get("SPOOLTOP_WHOLE"))
"""Every error at every call of every act, which takes four times as long; else that of the calls that change something, and one
error at each of the others."""


def every(step: int, some: Sequence[Shot]) -> list[Shot]:
    return [replace(one, acts=one.acts[at % len(one.acts) :][:1]) for at, one in enumerate(some[::step])]


def run(quick: bool, say: Callable[[str], None]) -> Figure:
    if shutil.which("strace") is None:
        return Figure(NAME, BAR, 0, 0, skipped=1, explained="no strace here")
    try:
        chosen = shots((KILL, "EIO") if quick else (KILL, *ERRORS))
    except NotTraced as error:
        say(f"not to be traced here: {error}")
        return Figure(NAME, BAR, 0, 0, skipped=1, explained="nobody may trace here")
    if quick:
        chosen = every(QUICK, chosen)
    hits: Counter[str] = Counter()
    violations = 0
    batches = [chosen] if quick else [chosen[at::BATCHES] for at in range(min(BATCHES, len(chosen)))]
    with ProcessPoolExecutor(WORKERS, mp_context=multiprocessing.get_context("spawn")) as pool:
        found = map(all_struck, batches) if quick else pool.map(all_struck, batches)
        for number, batch in enumerate(found, 1):
            for shot, hit, wrong in batch:
                hits["kill" if shot.what == KILL else "error"] += hit
                violations += len(wrong)
                for words in wrong:
                    say(words)
            if not quick:
                say(f"{number} of {len(batches)}: {hits['kill']:,} kills, {hits['error']:,} errors")
    seen = f"{len(NAMES)} operations; killed at {hits['kill']:,} calls, {hits['error']:,} calls failed with {', '.join(ERRORS)}"
    return Figure(NAME, BAR, hits.total(), violations, explained=seen)


QUICK = 9
"""Every so many of the shots belong to the quick part, each at one operation."""
BATCHES = 40
