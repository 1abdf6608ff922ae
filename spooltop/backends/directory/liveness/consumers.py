"""Gathers the consumers of a spool: who holds the claims that a look has judged, and who has a presence file and no claim.

What it costs is bounded: by the number of presence files and processes that are looked at, and by a rest after each gathering
that grows with the time that it took.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

from msgspec import Struct
from msgspec.structs import replace

from spooltop.engine import presence
from spooltop.engine.dirs import SpoolDirs
from spooltop.model.look.consumers import ConsumerList, ConsumerRow, Usage
from spooltop.model.row import Row
from spooltop.model.vocabulary import Owner, Verdict

from ..storage.rows import tokens_of_claims
from .claim_liveness import TokenJudge
from .processes import Certainty, Processes, ProcessUse

_TOKEN = re.compile(r"[0-9a-f]{32}")
_IDS = 8
"""Claims of a consumer that are named."""
_LISTED = 2_000
"""Consumers that are listed, the most important ones."""
_TESTED = 1_000
"""Consumers without a claim whose presence is tested."""
_EXITED = 20
"""Exited consumers without a claim that are listed: they are the past."""
_SAMPLED = 500
"""Processes that are asked what they use."""
_EVERY = 1.0
"""Seconds between two samples of what processes use, and between two tests of presence."""
_SHARE = 20
"""The same as a multiple of the time that gathering took."""


def claiming(rows: Sequence[Row]) -> tuple[list[ConsumerRow], int]:
    """The consumers that hold the claims ``rows``, and how many of these name no consumer. ``rows`` are the oldest first."""
    held: dict[tuple[str, int | None, Verdict | None], list[Row]] = {}
    nameless = 0
    names = [row.name for row in rows]
    for row, token in zip(rows, tokens_of_claims(names), strict=True):
        pid = None if token or row.owner is None else row.owner.pid
        if not token and pid is None:
            nameless += 1
        else:
            held.setdefault((token, pid, None if token else row.verdict), []).append(row)
    return [_claimant(token, some) for (token, _, _), some in held.items()], nameless


def _claimant(token: str, rows: Sequence[Row]) -> ConsumerRow:
    first = rows[0]
    times = [row.in_box_since for row in rows if row.in_box_since is not None]
    exact = [row.in_box_since for row in rows if row.in_box_since is not None and not row.since_is_bound]
    return ConsumerRow(
        verdict=first.verdict or Verdict.UNKNOWN,
        evidence=first.evidence,
        owner=first.owner or Owner(),
        token=token or None,
        claims=len(rows),
        claimed_at=min(times, default=None),
        claimed_is_bound=first.since_is_bound,
        last_claim_at=max(exact, default=None),
        ids=tuple(row.id for row in rows[:_IDS]),
    )


class _Sample(Struct, frozen=True):
    """Use of a process at a time (``Processes.boottime``), and its ``usage`` since the sample before."""

    at: float
    use: ProcessUse
    usage: Usage


class ConsumerGatherer:
    """Remembers from time to time what was found of the consumers of one spool. ``hosts`` is the setting ``claims.hosts``."""

    def __init__(self, processes: Processes, hosts: str = presence.ANY_MACHINE) -> None:
        self._processes = processes
        self._token_judge = TokenJudge(processes, hosts)
        self._rows: Sequence[Row] | None = None
        self._claimants: tuple[list[ConsumerRow], int] = ([], 0)
        self._samples: dict[int, _Sample] = {}
        self._exited: dict[str, ConsumerRow] = {}
        self._idle: tuple[ConsumerRow, ...] = ()
        self._untested = 0
        self._error = ""
        self._last: ConsumerList | None = None
        self._due = self._slow_until = float("-inf")

    def gather(
        self, dirs: SpoolDirs, rows: Sequence[Row], certainty: Certainty, taken_at: float, *, complete: bool = True
    ) -> ConsumerList:
        """Gathers the consumers as of a look at ``taken_at`` that judged the claims ``rows``, the oldest first; ``complete``:
        there are no others."""
        began = self._processes.boottime()
        due = began >= self._due
        if self._last is not None and not due and (rows is self._rows or began < self._slow_until):
            return self._last
        if rows is not self._rows:
            self._claimants, self._rows = claiming(rows), rows
        claimants, nameless = self._claimants
        if due:
            self._look_at_idle(dirs, {one.token for one in claimants if one.token is not None}, certainty)
        known = {one.token for one in claimants}
        found = [*claimants, *(one for one in self._idle if one.token not in known)]
        found.sort(key=lambda one: (-one.rank, one.claimed_at is None, one.claimed_at or 0.0))
        exited = sum(one.exited for one in found)
        listed = found[: min(_LISTED, len(found) - max(0, exited - _EXITED))]
        if due:
            self._sample(listed)
        error = self._error or ("" if complete else f"only the first {len(rows):,} claims are counted")
        self._last = ConsumerList(
            tuple(map(self._used, listed)), taken_at, len(found) - len(listed) + self._untested, nameless, error
        )  # fmt: skip
        if due:
            ended = self._processes.boottime()
            self._due = ended + max(_EVERY, _SHARE * (ended - began))
            self._slow_until = self._due if ended - began > _EVERY / _SHARE else ended
        return self._last

    def _look_at_idle(self, dirs: SpoolDirs, claiming: set[str], certainty: Certainty) -> None:
        """Tests the consumers that have a presence file and no claim; those found dead are not tested again."""
        try:
            folder = dirs.private_dir(presence.CONSUMERS)
            tokens = [] if folder is None else list(filter(_TOKEN.fullmatch, dirs.files.list(folder)))
        except OSError as problem:
            self._idle, self._untested = (), 0
            self._error = f"consumers without a claim are not visible: {problem.strerror}"
            return
        self._error = ""
        there = set(tokens)
        self._exited = {token: one for token, one in self._exited.items() if token in there}
        idle = [token for token in tokens if token not in claiming and token not in self._exited]
        alive = {one.token for one in self._idle}
        idle.sort(key=lambda token: token not in alive)  # known ones first, so that the list stays the same
        looked = {token: presence.look(dirs, token) for token in islice(idle, _TESTED)}
        looked = {token: seen for token, seen in looked.items() if seen.state != "missing"}
        rows = [
            ConsumerRow(verdict, evidence, owner, token)
            for token, (verdict, evidence, owner, _, _) in self._token_judge.judge(looked, certainty).items()
        ]
        self._exited.update((one.token, one) for one in rows if one.exited and one.token is not None)
        past = sorted(self._exited.values(), key=lambda one: one.owner.start or 0.0, reverse=True)
        self._idle = (*(one for one in rows if not one.exited), *(one for one in past if one.token not in claiming))
        self._untested = max(0, len(idle) - _TESTED)

    def _sample(self, listed: Iterable[ConsumerRow]) -> None:
        """Samples what the processes of running consumers use, as far as they are visible."""
        running = (one.owner for one in listed if one.verdict is Verdict.ALIVE and one.owner.user is not None)
        pids = [owner.pid for owner in running if owner.pid is not None]
        self._samples = dict(_sampled(self._processes, islice(dict.fromkeys(pids), _SAMPLED), self._samples))
        self._token_judge.forget(pids)

    def _used(self, one: ConsumerRow) -> ConsumerRow:
        sample = self._samples.get(one.owner.pid) if one.owner.pid is not None and one.verdict is Verdict.ALIVE else None
        return one if sample is None or one.owner.user is None else replace(one, usage=sample.usage)


def _sampled(processes: Processes, pids: Iterable[int], before: Mapping[int, _Sample]) -> Iterable[tuple[int, _Sample]]:
    """Yields a sample of each process that is visible; its command line is read once."""
    for pid in pids:
        use, at = processes.use(pid), processes.boottime()
        if use is None:
            continue
        last, cpu = before.get(pid), None
        if last is not None and last.use.started == use.started:
            cpu = max(0.0, use.cpu - last.use.cpu) / max(0.001, at - last.at)
            command = last.usage.command
        else:
            command = processes.command_line(pid)
        yield pid, _Sample(at, use, Usage(cpu, use.memory, use.stopped, command))
