"""Verdicts on the holders of messages and the writers of files, by the evidence that a layout names.

``dead`` is proof: nobody can produce the evidence while the holder lives. Where a layout names several pieces, all must say it.
Age proves nothing; the end of a lease does, unless the layout says that nobody renews it. What was moved or replaced while the
evidence was read is not judged. Where nothing is proved the verdict is ``unknown``, with what was seen.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import suppress
from functools import cached_property

from msgspec import Struct

from spooltop.model import Box, Frozen, QueueFinding, Verdict, age, escape

from ..surroundings import Surroundings, Users
from .definition import CrossCheck, Layout, ProblemRule, VerdictRule, time_of
from .queue_dirs import find, read, status
from .sort_files import QueueFile

# Finds what boxes alone do not show: a state without its message, a message without its state, one id twice, a lock alone.

LOCK_STALE = "lock-stale"
"""Code of the rules about locks, which are shown among the locks."""
_SMALL_FILE = 4096
_NAMED = 3
"""Ids that a sentence names."""
_SETTLED = 5.0
"""Seconds after which an entry counts: a program writes it and then its message."""


class RegisterEntry(Frozen):
    """An entry of the register ``check``: the path of its file, the ``id`` of its message, and its text."""

    check: CrossCheck
    path: str
    id: str
    text: str

    @property
    def said(self) -> tuple[str, str]:
        """By which it is known at the next look."""
        return self.path, self.text

    @property
    def state(self) -> str:
        """The state that the text says, "" for none."""
        said = next((found for one in self.check.says if (found := one.match(self.text)) is not None), None)
        return "" if said is None else said["state"]


def lost_entries(
    root: int, files: Sequence[QueueFile], entries: Sequence[RegisterEntry], known: Set[tuple[str, str]], now: float,
    again: Callable[[], tuple[Sequence[QueueFile], Sequence[RegisterEntry]]],
) -> list[RegisterEntry]:  # fmt: skip
    """Returns those of ``entries`` whose messages are nowhere. A message that is moved while the directories are read may be in
    none of them, so ``again`` reads the queue once more where one is missing that was not ``known`` as such before."""
    lost = [entry for entry in _lost(files, entries) if entry.said in known or _is_settled(root, entry, now)]
    if not all(entry.said in known for entry in lost):
        then = {entry.said for entry in _lost(*again())}
        lost = [entry for entry in lost if entry.said in then]
    return lost


def _is_settled(root: int, entry: RegisterEntry, now: float) -> bool:
    found = find(root, entry.path)
    return found is not None and abs(now - found.st_mtime) > _SETTLED


def findings(
    layout: Layout, root: int, files: Sequence[QueueFile], lost: Sequence[RegisterEntry]
) -> tuple[QueueFinding, ...]:
    """Returns the problems of the layout, one for each rule that finds something. ``lost`` are the entries of the registers whose
    messages are nowhere, as ``lost_entries`` returns them."""
    found: list[QueueFinding] = []
    for check in layout.checks:
        missing: dict[str, list[str]] = {}
        for entry in lost:
            if entry.check is check:
                missing.setdefault(entry.state, []).append(entry.id)
        for state, ids in missing.items():
            words = _sentence(ids, check.missing.replace("{state}", escape(state)))
            found.append(QueueFinding("lost", words, len(ids), tuple(ids)))
    for rule in layout.problems:
        if rule.same:
            found += _same(rule, files)
        elif rule.code != LOCK_STALE and (alone := list(_left_over(rule, root, files))):
            found.append(QueueFinding(rule.code, _sentence(alone, rule.text), len(alone), tuple(alone)))
    return tuple(found)


def read_entries(layout: Layout, root: int, files: Sequence[QueueFile]) -> list[RegisterEntry]:
    """Reads the registers. What cannot be read is left out: it was removed meanwhile, or is not ours to read."""
    entries = []
    for file in files if layout.checks else ():
        for check in layout.checks if file.match is None else ():
            if (fields := check.template.match(file.path)) is not None:
                with suppress(OSError):
                    text = read(root, file.path, _SMALL_FILE).decode("utf-8", "replace").strip()
                    entries.append(RegisterEntry(check, file.path, fields["id"], text))
    return entries


def notes_of(layout: Layout, files: Sequence[QueueFile], entries: Sequence[RegisterEntry]) -> dict[str, str]:
    """Notes on messages, by path: that their register has no entry of them."""
    notes = {}
    for check in layout.checks:
        if not check.without:
            continue
        known = {entry.id for entry in entries if entry.check is check}
        for file in files:
            if file.box in ("new", "cur") and file.id not in known:
                notes[file.path] = check.without
    return notes


def _lost(files: Sequence[QueueFile], entries: Sequence[RegisterEntry]) -> list[RegisterEntry]:
    """The entries whose message lies in none of the boxes that they want."""
    boxes = defaultdict(set)
    for file in files if entries else ():
        boxes[file.id].add(file.box)
    wanted = ((entry, entry.check.wants.get(entry.state, ())) for entry in entries)
    return [entry for entry, wants in wanted if wants and not boxes[entry.id].intersection(wants)]


def _same(rule: ProblemRule, files: Sequence[QueueFile]) -> list[QueueFinding]:
    seen: dict[str, list[str]] = {}
    waiting = [file for file in files if file.box == "new"]
    if rule.same == "id" and len({file.id for file in waiting}) == len(waiting):
        return []  # without another look at each of 200,000 names
    for file in waiting:
        if (value := file.fields.get(rule.same)) is not None:
            seen.setdefault(value, []).append(file.path)
    twice = {value: paths for value, paths in seen.items() if len(paths) > 1}
    if not twice:
        return []
    paths = [path for those in twice.values() for path in those]
    return [QueueFinding(rule.code, _sentence(list(twice), rule.text), len(twice), tuple(twice), Box.NEW, tuple(paths))]


def locks_alone(layout: Layout, root: int, files: Sequence[QueueFile]) -> dict[str, tuple[str, str]]:
    """Locks whose message is not there, by path: the path of the message, and what that means."""
    return {
        path: (beside, rule.text)
        for rule in layout.problems
        if rule.code == LOCK_STALE
        for path, beside in _left_over(rule, root, files).items()
    }


def _left_over(rule: ProblemRule, root: int, files: Sequence[QueueFile]) -> dict[str, str]:
    """Files without the one that belongs to them, whose path is the value."""
    alone = {}
    for file in files:
        fields = rule.alone.match(file.path) if rule.alone is not None else None
        if fields is None or rule.beside is None:
            continue
        beside = rule.beside.path_of(fields)
        if beside is not None and find(root, beside) is None:
            alone[file.path] = beside
    return alone


def _sentence(ids: Sequence[str], text: str) -> str:
    named = ", ".join(escape(one) for one in ids[:_NAMED])
    more = f" and {len(ids) - _NAMED:,} more" if len(ids) > _NAMED else ""
    return f"{named}{more}: {text}"


JUDGED_AT_MOST = 20_000
"""Maximum number of claims and of files that are being written that are judged in one look."""

_SMALL = 64
_NOBODY = "its claim names nobody"
_CHANGED = "it moved or changed while its holder was looked for"
_MAY_LIVE = "its holder may live all the same"
_WRITER: Mapping[Verdict | None, Verdict] = {
    Verdict.ALIVE: Verdict.WRITING, Verdict.DEAD: Verdict.ABANDONED, Verdict.UNKNOWN: Verdict.UNKNOWN,
}  # fmt: skip


class HolderVerdict(Frozen):
    """The grounds of a verdict in words, the verdict, and the pid of the holder where it is known."""

    evidence: str
    verdict: Verdict | None = Verdict.UNKNOWN
    pid: int | None = None


NOT_JUDGED = HolderVerdict("", None)


def judge(
    layout: Layout, root: int, files: Sequence[QueueFile], around: Surroundings, now: float
) -> dict[str, HolderVerdict]:
    """Returns the verdicts on ``files``, those in ``cur`` and ``tmp``, by path. What several have in common is asked once."""
    before = {file.path: found for file in files if (found := find(root, file.path)) is not None}
    judging = _Judging(layout, root, around, now)
    judging.ask(files, before)
    judged = {}
    for file in files:
        one = judging.judge(file, before.get(file.path))
        if one.verdict is Verdict.DEAD and not _is_same(before.get(file.path), find(root, file.path)):
            one = HolderVerdict(_CHANGED, pid=one.pid)
        if file.box == "tmp":
            one = HolderVerdict(one.evidence, _WRITER[one.verdict], one.pid)
        judged[file.path] = one
    return judged


def _is_same(before: os.stat_result | None, after: os.stat_result | None) -> bool:
    """True for a file that stands as it stood before the evidence was read: nobody has acked it or taken it anew meanwhile."""
    return before is not None and after is not None and (
        os.path.samestat(before, after) and before.st_ctime_ns == after.st_ctime_ns
    )  # fmt: skip


class _Judging(Struct, dict=True):
    """Keeps the answers that several files have in common for one look."""

    _layout: Layout
    _root: int
    _around: Surroundings
    _now: float
    _answers: dict[tuple[str, str], HolderVerdict] = {}
    _pids: dict[tuple[int, float], tuple[Verdict, str]] = {}
    _opened: dict[str, Users] = {}

    @cached_property
    def _local(self) -> bool:
        return self._around.local(self._root)

    @cached_property
    def _locks(self) -> Callable[[os.stat_result], Users]:
        return self._around.locks(self._root)

    @cached_property
    def _watching(self) -> Users:
        try:
            return self._around.watching(status(self._root, self._layout.watched), self._root)
        except OSError:
            return Users((), False, f"{self._layout.watched} cannot be seen")

    def ask(self, files: Sequence[QueueFile], found: Mapping[str, os.stat_result]) -> None:
        """Asks for all files at once what may read all processes."""
        pids: dict[tuple[int, float], None] = {}
        statuses: dict[str, os.stat_result] = {}
        for file in files:
            if (rule := _rule(file)) is None or _is_alive(self._by_flock(rule, file)):
                continue
            if rule.pid and (here := found.get(file.path)) is not None:
                pids[int(file.fields[rule.pid]), here.st_ctime] = None
            if rule.open is not None and (path := rule.open.path_of(file.pieces)) is not None:
                other = found.get(path) or find(self._root, path)
                if other is not None:
                    statuses[path] = other
        if pids:
            self._pids = dict(zip(pids, self._around.pids([*pids], self._root), strict=True))
        if statuses:
            self._opened = dict(zip(statuses, self._around.opened([*statuses.values()]), strict=True))

    def judge(self, file: QueueFile, found: os.stat_result | None) -> HolderVerdict:
        """``found`` is the status of the file before the evidence was read, None if it had gone."""
        if found is None:
            return HolderVerdict(_CHANGED)
        nobody = HolderVerdict(_NOBODY)
        if (rule := _rule(file)) is None:
            return nobody
        fields = file.pieces
        locked = self._by_flock(rule, file)
        if locked is not None and locked.verdict is Verdict.ALIVE:
            return locked
        opened = None if rule.open is None else self._once("open", rule.open.path_of(fields), self._by_open)
        leased = self._by_lease(rule, fields) if rule.lease is not None or rule.watched else None
        # The time of the last rename or later: a process that was started after it took another claim than this one.
        by_pid = [self._by_pid(int(fields[rule.pid]), found.st_ctime)] if rule.pid else []
        by_pid += [named] if (named := self._once("pidfile", rule.pidfile or None, self._by_pidfile)) is not None else []
        judged = _all_of([one for one in (locked, opened, leased) if one is not None], by_pid) or nobody
        if judged.verdict is Verdict.DEAD and rule.proves_nothing and not rule.watched:
            return HolderVerdict(f"{judged.evidence}; {_MAY_LIVE}", pid=judged.pid)
        return judged

    def _by_flock(self, rule: VerdictRule, file: QueueFile) -> HolderVerdict | None:
        return None if rule.flock is None else self._once("flock", rule.flock.path_of(file.pieces), self._by_lock)

    def _once(self, kind: str, path: str | None, ask: Callable[[str], HolderVerdict]) -> HolderVerdict | None:
        if path is None:
            return None
        key = kind, path
        if key not in self._answers:
            self._answers[key] = ask(path)
        return self._answers[key]

    def _by_lock(self, path: str) -> HolderVerdict:
        try:
            users = self._locks(status(self._root, path))
        except OSError:
            return HolderVerdict(f"{path} cannot be seen")
        return self._by_users(users, "locked by pid {}", f"locks {path}")

    def _by_users(self, users: Users, alive: str, does: str) -> HolderVerdict:
        """The verdict by those who use a file. ``alive`` says it with their pid, ``does`` says what nobody does."""
        if users.pids:
            return HolderVerdict(alive.format(users.pids[0]), Verdict.ALIVE, users.pids[0])
        if not users.complete or not self._local:
            return HolderVerdict(users.why or f"nobody here {does}; another machine may")
        return HolderVerdict(f"nobody {does}", Verdict.DEAD)

    def _by_pid(self, pid: int, since: float) -> HolderVerdict:
        if (pid, since) not in self._pids:
            self._pids[pid, since] = self._around.pids([(pid, since)], self._root)[0]
        verdict, words = self._pids[pid, since]
        return HolderVerdict(words, verdict, pid)

    def _by_pidfile(self, path: str) -> HolderVerdict:
        try:
            pid = int(read(self._root, path, _SMALL).split()[0])
            since = status(self._root, path).st_ctime
        except (OSError, ValueError, IndexError):
            return HolderVerdict(f"{path} names no process")
        return self._by_pid(pid, since)

    def _by_open(self, path: str) -> HolderVerdict:
        if path not in self._opened:
            return HolderVerdict(f"{path} cannot be seen")
        return self._by_users(self._opened[path], "pid {} has it open", "has it open")

    def _by_lease(self, rule: VerdictRule, fields: Mapping[str, str]) -> HolderVerdict:
        path = None if rule.lease is None else rule.lease.path_of(fields)
        left, lease = (None, "") if path is None else self._lease(path, rule.lease_unit)
        if not rule.watched:
            if rule.proves_nothing or left is None or (left < 0 and not self._local):
                return HolderVerdict(lease or _NOBODY)  # the clock of another machine may be behind
            return HolderVerdict(f"its {lease}", Verdict.DEAD if left < 0 else Verdict.ALIVE)
        users, folder = self._watching, f"{self._layout.watched}/"
        if users.pids:
            others = len(users.pids) - 1
            who = f"pid {users.pids[0]} and {others} more watch" if others else f"pid {users.pids[0]} watches"
            return HolderVerdict(_joined(f"{who} {folder}, as its worker would", lease))
        if not users.complete or not self._local:
            return HolderVerdict(_joined(users.why or f"nobody here watches {folder}; another machine may", lease))
        return HolderVerdict(_joined(f"no process watches {folder}, so no worker runs", lease), Verdict.DEAD)

    def _lease(self, path: str, unit: str) -> tuple[float | None, str]:
        """The seconds that a lease still runs, None where that cannot be told, and the same in words."""
        try:
            until = time_of(unit, read(self._root, path, _SMALL).decode("ascii", "replace"))
        except OSError:
            return None, "no lease"
        if until is None:
            return None, "its lease cannot be read"
        left = until - self._now
        return left, f"lease ended {age(-left)} ago" if left < 0 else f"lease runs {age(left)} more"


def _rule(file: QueueFile) -> VerdictRule | None:
    return None if file.match is None else file.match.verdict


def is_final(file: QueueFile) -> bool:
    """True if a holder who is dead stays so as long as the claim is the same: only the pid in its name tells who that is."""
    rule = _rule(file)
    return rule is not None and bool(rule.pid) and not any((rule.flock, rule.pidfile, rule.lease, rule.open, rule.watched))


def _is_alive(judged: HolderVerdict | None) -> bool:
    return judged is not None and judged.verdict is Verdict.ALIVE


def _all_of(uses: Sequence[HolderVerdict], pids: Sequence[HolderVerdict]) -> HolderVerdict | None:
    """The verdict of several pieces of evidence, None without any. ``uses`` are those that only a process at work can give, by a
    lock, an open file or a lease; a number of ``pids`` may be that of another process by now."""
    judged = [*uses, *pids]
    alive = next(filter(_is_alive, uses), None)
    if alive is not None or not judged:
        return alive
    running, dead = next(filter(_is_alive, pids), None), [one for one in judged if one.verdict is Verdict.DEAD]
    numbers = [f"pid {one.pid}: {one.evidence}" if uses else one.evidence for one in pids]
    words = "; ".join([*(one.evidence for one in uses), *numbers])
    if running is not None:
        return HolderVerdict(words, pid=running.pid) if dead else running
    if len(dead) == len(judged):
        return HolderVerdict(words, Verdict.DEAD, pids[0].pid if pids else None)
    return next(one for one in judged if one.verdict is not Verdict.DEAD)


def _joined(words: str, lease: str) -> str:
    return f"{words}; {lease}" if lease else words
