"""Judges the holders of claims and the writers of files in ``tmp``, all of them at each look, and gathers the consumers. A living
consumer is never called dead; without proof the verdict is unknown.

Order of the checks on claims: the names of ``cur`` were listed first, then each holder is tested once, then each claim without a
holder is looked up again. Only a claim that is still there as the same file is dead.

A file in ``tmp`` is ``writing``, ``abandoned`` or ``unknown``, never by age alone. In a staging directory it goes by the name
``FOLDER/NAME`` here. Locks are read from the kernel's table and never tried: a writer that finds its own file locked by a viewer
would fail. Only evidence that a reader cannot produce counts as writing: a write lock, or a descriptor that is open for writing.
A flock requires neither.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import closing
from functools import cache, partial
from itertools import chain, islice
from typing import NamedTuple

from msgspec import Struct

from spooltop.engine import presence
from spooltop.engine.dirs import SpoolDirs
from spooltop.engine.files import REAL_FILES
from spooltop.engine.host import PROC
from spooltop.engine.names import Name, encode_value, is_own_id, parse
from spooltop.engine.presence import Presence
from spooltop.model import BoxState, ConsumerList, ConsumerRow, Mount, Progress, Usage, VerdictCounts
from spooltop.model.vocabulary import EXITED, NOT_A_CLAIM, RUNNING, Box, Frozen, Owner, Row, Verdict, age, began, escape

from ..access import user_name
from .processes import (
    BootClock,
    Certainty,
    Descriptors,
    LockTable,
    Process,
    Processes,
    ProcessUse,
    check_pids,
    judge_pids,
)
from .scan import BoxScan, Scans
from .storage import Folders, OpenOptions, System, claim_row, is_local, tmp_row, tokens_of, tokens_of_claims

# Detects living holders of old claims that do nothing: their CPU time is sampled every few seconds.

_EVERY = 10.0
_TOLD_FROM = 60.0
_ASKED_AT_MOST = 200

_Used = tuple[tuple[int, float, float], ...]


class Idle(Struct):
    """Remembers of each process since when it and its children have used no CPU (``Processes.cpu``)."""

    _processes: Processes
    _asked_at: float = float("-inf")
    _since: dict[int, tuple[_Used, float]] = {}

    def look(self, pids: Iterable[int]) -> None:
        """Asks for ``pids``, at most every 10 s; who is not among them is forgotten."""
        now = self._processes.boottime()
        if now - self._asked_at < _EVERY:
            return
        self._asked_at = now
        seen: dict[int, tuple[_Used, float]] = {}
        for pid in sorted(set(pids))[:_ASKED_AT_MOST]:
            used = self._processes.cpu(pid)
            if used is not None:
                before = self._since.get(pid)
                seen[pid] = before if before is not None and before[0] == used else (used, now)
        self._since = seen

    def words(self, pid: int | None) -> str:
        """"no CPU for 5m", in steps as ages are; empty until that was watched for a minute."""
        known = None if pid is None else self._since.get(pid)
        idle = 0.0 if known is None else self._asked_at - known[1]
        return f"no CPU for {age(idle)}" if idle >= _TOLD_FROM else ""


# Finds the process that holds the presence lock of a claim where it is not the process that the presence file names. A child
# that inherits the descriptor keeps the lock after its parent has ended, and anyone who may write the file can lock it too.
# Descriptors (proc(5): fd, fdinfo) distinguish the two cases: parent and child share one open file, so the file offset of the
# child is where the parent stopped writing. The result names a process to look at; the verdict depends on the lock alone.

_AGAIN_AFTER = 5.0
"""Seconds after which the descriptors of all processes are read again; for tokens not seen before after one."""
_SOON = 1.0


Holder = tuple[Process | None, str]
"""Holder of the lock: its process, None where it is not visible, and who it is in words, "" for the consumer itself."""


# Judges the holders that own a presence file: whether each is alive, who it is, and the evidence.

_BEFORE_RESTART = f"{EXITED}, ran before the restart"


class TokenHolder(NamedTuple):
    """The verdict on the holder of a token, with the evidence, its owner, the same evidence as a sentence, and whether it runs
    under its pid here."""

    verdict: Verdict
    evidence: str
    owner: Owner
    sentence: str
    here: bool


def also(evidence: str, more: str) -> str:
    """Returns the evidence with one thing more, if there is one."""
    return f"{evidence} · {more}" if more else evidence


def _owner_of(process: Process) -> Owner:
    return Owner(None, process.pid, process.since, process.command, process.user)


class TokenJudge(Struct):
    """Remembers from look to look who the holders are. ``hosts`` is the setting ``claims.hosts``; ``brief`` are pids of holders
    that need no description yet."""

    _processes: Processes
    _hosts: str
    brief: set[int | None] = set()
    _verified: set[tuple[str, int]] = set()
    _found: dict[str, dict[int, bool]] = {}
    """Token → pids that hold its lock, each with whether it inherited the descriptor."""
    _looked: float = float("-inf")

    def vantage(self, certainty: Certainty) -> presence.HostView:
        """The point of view from which presence locks are judged."""
        return presence.HostView(self._processes.machine(), certainty.local, self._hosts == presence.THIS_MACHINE)

    def judge(self, looked: Mapping[str, Presence], certainty: Certainty) -> dict[str, TokenHolder]:
        """Judges the holders of the tokens whose presence files were just ``looked`` at."""
        vantage = self.vantage(certainty)
        here_is = vantage.machine
        holders: dict[str, TokenHolder] = {}
        lock_holders = self._lock_holders({token: seen for token, seen in looked.items() if seen.state == "held"})
        for token, seen in looked.items():
            verdict, sentence = presence.judge(seen, vantage)
            words = EXITED if verdict is Verdict.DEAD else sentence
            if verdict is Verdict.DEAD and seen.boot_id != here_is.boot_id:
                words = _BEFORE_RESTART
            if seen.moves_to is not None and verdict is not Verdict.ALIVE:
                words = also(words, "left to the next move")
            owner, here = seen.owner, False
            if token in lock_holders:
                process, who = lock_holders[token]
                words, sentence = who or RUNNING, who or sentence
                described = self.describe(process) if process is not None and process.started is not None else None
                if described is not None:
                    here, words = True, also(words, described.halted)
                    known = Owner(host=owner.host) if who else owner
                    owner = known.replace(
                        pid=described.pid, start=described.since or known.start,
                        command=described.command or known.command, user=described.user,
                    )  # fmt: skip
            holders[token] = TokenHolder(verdict, words, owner, sentence, here)
        return holders

    def _lock_holders(self, held: Mapping[str, Presence]) -> dict[str, Holder]:
        """The holder of each token in ``held``, whose locks were just met."""
        here = self._processes.machine()
        ours = {token for token, seen in held.items() if (seen.boot_id or None, seen.pid_ns) == (here.boot_id, here.pid_ns)}
        files_of = cache(self._processes.files_of)
        named = {token: self._named(seen) if token in ours else None for token, seen in held.items()}
        holders: dict[str, Holder] = {}
        for token, process in named.items():
            # True where it has the file open, or its descriptors cannot be read: it lives, and the lock is held.
            if process is not None and (
                (token, process.pid) in self._verified or (files := files_of(process.pid)) is None or held[token].file in files
            ):
                self._verified.add((token, process.pid))
                holders[token] = process, ""
        self._verified = {one for one in self._verified if one[0] in held}
        asked = {token: seen for token, seen in held.items() if token not in holders}
        if asked:
            self._find(asked)
        return holders | {
            token: self._holder(seen, named[token], self._found.get(token, {}), ours=token in ours)
            for token, seen in asked.items()
        }

    def _named(self, seen: Presence) -> Process | None:
        """The process that the file names, while it is the same one; a zombie has let go of everything."""
        if seen.pid is None or not self._processes.exists(seen.pid):
            return None
        process = self._processes.process(seen.pid)
        if process is None:
            return Process(seen.pid)  # hidden (hidepid), but there
        same = seen.start is None or process.started is None or abs(process.started - self._processes.seconds(seen.start)) < 0.02
        return process if same and not process.zombie else None

    def _find(self, asked: Mapping[str, Presence]) -> None:
        now = self._processes.boottime()
        if now - self._looked < (_AGAIN_AFTER if asked.keys() <= self._found.keys() else _SOON):
            return
        self._looked = now
        files = {seen.file: token for token, seen in asked.items() if seen.file is not None}
        self._found = {token: {} for token in asked}
        opened = self._processes.descriptors(set(files)).by_file
        for file, descriptors in opened.items():
            token = files[file]
            for one in descriptors:
                at = self._processes.locked_at(one.pid, one.number, file[1])
                if at is not None:
                    self._found[token][one.pid] = at == asked[token].size

    def _holder(self, seen: Presence, named: Process | None, found: Mapping[int, bool], *, ours: bool) -> Holder:
        itself = next((pid for pid in found if seen.pid in self._processes.numbers(pid)[1:]), None) if not ours else None
        if itself is not None:
            return self._processes.process(itself), ""
        exited = f"worker {seen.pid} has exited; " if ours and named is None and seen.pid is not None else ""
        # The first that inherited it; the others mostly are its children.
        pid = min(found, key=lambda pid: (not found[pid], pid), default=None)
        if pid is None:
            return None, f"{exited}held; holder not visible"
        process = self._processes.process(pid, described=True) or Process(pid)
        who = f"{pid} ({escape(process.command)})" if process.command else str(pid)
        does = f"its command {who} {'still runs and ' if exited else ''}holds the claim"
        if not found[pid]:
            does = f"{who}, not its {'child' if exited else 'consumer'}, holds its presence lock"
        return process, f"{exited}{does}; stop {pid}"

    def describe(self, process: Process) -> Process:
        """Adds command and user to what is visible of a process; they are read once."""
        return process if process.zombie or process.pid in self.brief else self._processes.describe(process)


_TOKENS_AT_MOST = 1_000
_REMEMBERED = 50_000
"""Claims of a plan of which is remembered what proved them dead: the pid of one may be given to another process."""
_HELD_LONG = 60.0
"""Seconds after which the activity of a running holder is looked at."""


class _Claim(Struct):
    """State kept for one name in ``cur``. ``seen`` is the CLOCK_BOOTTIME of the first look that found it."""

    name: Name
    inode: int
    ctime: float
    seen: float
    row: Row


class JudgedClaim(NamedTuple):
    """The verdict on a claim, the evidence, and its owner."""

    verdict: Verdict | None
    evidence: str
    owner: Owner | None

    @classmethod
    def of(cls, row: Row) -> JudgedClaim:
        return cls(row.verdict, row.evidence, row.owner)


NOT_JUDGED = JudgedClaim(None, "", None)
Verdicts = Mapping[str, tuple[Verdict | None, str]]
"""Name → verdict and evidence, without names that have gone."""
Rows = tuple[Row, ...]


class ClaimJudge(Struct):
    """Judges the claims of one spool, look after look. What is proven dead is not asked again. Without ``options.watch`` each
    look stands alone: it takes a minute to see that a holder is idle, so nobody is asked for processor time."""

    _processes: Processes
    _boot_clock: BootClock
    _options: OpenOptions
    _idle: Idle
    _token_judge: TokenJudge
    _claims: dict[str, _Claim] = {}
    _rows: Rows = ()
    _dead: set[str] = set()
    _scan: int = -1
    irregular: Rows = ()
    sentences: dict[str, str] = {}
    """Token → evidence as a sentence, for the detail."""

    def look(
        self, dirs: SpoolDirs, scan: BoxScan, certainty: Certainty, progress: Progress
    ) -> tuple[Rows, bool]:
        """Judges the names of a ``scan`` of ``cur``. Returns the rows, oldest first, and whether they are all. Raises ``Stopped``
        where ``progress`` does."""
        changed, count = scan.number != self._scan, len(scan.names)
        self._scan = -1  # until it is through: one that is stopped on the way is made anew
        if changed:
            progress.begin("claims found", count)
            self._claims, self.irregular = self._looked_up(dirs, progress.each(scan.names))
        progress.begin("claims judged", len(self._claims))
        changed |= self._judge(dirs, self._claims, certainty, progress, {})
        self._scan = scan.number
        if changed:
            if len(self.sentences) > 2 * len(self._claims) + 100:
                tokens = {claim.name.token for claim in self._claims.values()}
                self.sentences = {token: sentence for token, sentence in self.sentences.items() if token in tokens}
            rows = (claim.row for claim in self._claims.values())
            self._rows = tuple(sorted(rows, key=lambda row: (row.in_box_since or 0.0, row.name)))
        return self._rows, count <= self._options.judged_at_most

    def judge_again(self, dirs: SpoolDirs, names: Iterable[str], certainty: Certainty) -> Verdicts:
        """Judges ``names`` again with the help of earlier looks: name → (verdict, evidence). Leaves out names that have gone."""
        claims, _ = self._looked_up(dirs, names)
        self._judge(dirs, claims, certainty, Progress(), {})
        return {raw: (claim.row.verdict, claim.row.evidence) for raw, claim in claims.items()}

    def test(
        self, dirs: SpoolDirs, tokens: Collection[str], certainty: Certainty, progress: Progress
    ) -> dict[str, TokenHolder]:
        """Tests the holders of many claims, each once."""
        progress.begin("consumers tested", len(tokens))
        # Together, because to find a holder that is not named costs a look at all processes.
        return self._token_judge.judge({token: presence.look(dirs, token) for token in progress.each(tokens)}, certainty)

    def judge_names(
        self, dirs: SpoolDirs, names: Sequence[str], tails: Sequence[str], tested: Mapping[str, TokenHolder], certainty: Certainty
    ) -> list[JudgedClaim]:
        """Judges ``names``, whose claims end in ``tails``, after their tokens were tested. Does not look whether they are still
        there, unless the evidence is in their processes."""
        judged: dict[str, JudgedClaim] = {}
        tokens = tokens_of(tails)
        known = {token: tested[token] for token in tokens if token in tested}
        alike: dict[tuple[str, str], JudgedClaim] = {}  # one for all claims of a process: a plan groups its messages by them
        for name, tail, token in zip(names, tails, tokens, strict=True):
            holder = known.get(token)
            if holder is not None and not holder.here:  # those that run here are judged claim by claim
                key = token, tail.rpartition("P")[2]
                if key not in alike:
                    owner = holder.owner
                    owner = owner.replace(pid=int(key[1])) if owner.pid is None else owner
                    alike[key] = JudgedClaim(holder.verdict, holder.evidence, owner)
                judged[name] = alike[key]
        others = [name for name in names if name not in judged]
        if others:
            rest, _ = self._looked_up(dirs, others)
            self._judge(dirs, rest, certainty, Progress(), known)
            if len(self._claims) >= _REMEMBERED:
                self._claims = {}
            self._claims.update(rest)
            judged |= {name: JudgedClaim.of(claim.row) for name, claim in rest.items()}
        return [judged.get(name, NOT_JUDGED) for name in names]  # gone, or irregular

    def _judge(
        self, dirs: SpoolDirs, claims: dict[str, _Claim], certainty: Certainty, progress: Progress,
        known: Mapping[str, TokenHolder],
    ) -> bool:  # fmt: skip
        """Judges ``claims`` that are not dead yet, and removes those that have gone. Returns True if anything has changed.
        ``known`` are holders that were tested just before."""
        changed = False
        asked = [claim for claim in claims.values() if claim.row.verdict is not Verdict.DEAD]
        if after := self._options.described_after:
            long = {c.name.pid for c in asked if self._held(c) >= after}
            self._token_judge.brief = {c.name.pid for c in asked} - long
        tokens = {c.name.token for c in asked if c.name.token is not None} - known.keys()
        tested = self._token_judge.judge({token: presence.look(dirs, token) for token in tokens}, certainty)
        self.sentences.update((token, holder.sentence) for token, holder in tested.items())
        holders = {**known, **tested}
        timed = [
            (c.name.pid, self._boot_clock.latest(c.ctime, c.seen))
            for c in asked if c.name.pid is not None and c.name.token is None
        ]  # fmt: skip
        by_pid = iter(judge_pids(self._processes, timed, certainty))

        def verdict_on(name: Name) -> tuple[Verdict | None, str, Owner, bool]:
            """The verdict on a claim, the evidence, its owner, and whether that runs here."""
            if name.token is not None:
                verdict, evidence, owner, _, here = holders[name.token]
                return verdict, evidence, owner.replace(pid=name.pid) if owner.pid is None else owner, here
            if name.pid is None:
                none = (None, NOT_A_CLAIM) if name.flags is None else (Verdict.UNKNOWN, "no holder in its name")
                return *none, Owner(), False
            verdict, evidence, process = next(by_pid)
            owner, here = Owner(pid=name.pid), verdict is Verdict.ALIVE
            if here and process is not None:
                owner = _owner_of(self._token_judge.describe(process))
                evidence = also(evidence, process.halted)
            return verdict, evidence, owner, here

        both = [(claim, verdict_on(claim.name)) for claim in asked]
        if self._options.watch:
            running = (owner.pid for claim, (*_, owner, here) in both if here and self._held(claim) > _HELD_LONG)
            self._idle.look(pid for pid in running if pid is not None)
        for claim, (verdict, evidence, owner, here) in progress.each(both):
            if here and (idle := self._idle.words(owner.pid)) and self._held(claim) > _HELD_LONG:
                evidence = also(evidence, idle)
            if verdict is Verdict.DEAD and not REAL_FILES.is_inode(claim.name.raw, dirs.box(Box.CUR), claim.inode, unseen=False):
                del claims[claim.name.raw]  # acknowledged or requeued since it was listed
                changed = True
                continue
            before, claim.row = claim.row, claim.row.judged(verdict, evidence, owner)
            changed |= claim.row is not before
        return changed

    def count_running(self, dirs: SpoolDirs, certainty: Certainty) -> int | None:
        """Counts the living consumers that use the spool's own protocol; None where there has never been one, or where they
        cannot be read."""
        try:
            tokens = _presence_tokens(dirs)
        except OSError:
            return None
        if tokens is None:
            return None
        del tokens[_TOKENS_AT_MOST:]
        count, vantage = 0, self._token_judge.vantage(certainty)
        for token in tokens:
            if token in self._dead:
                continue
            seen = presence.look(dirs, token)
            if presence.judge(seen, vantage)[0] is Verdict.DEAD:
                self._dead.add(token)
            count += seen.state == "held"
        self._dead.intersection_update(tokens)
        return count

    def _looked_up(self, dirs: SpoolDirs, names: Iterable[str]) -> tuple[dict[str, _Claim], Rows]:
        """Returns the claims among ``names``, and the irregular files. A known claim is not looked up again, unless its name is
        foreign: the same pid may have claimed the same id anew."""
        now = self._processes.boottime()
        kept: dict[str, _Claim] = {}
        irregular: list[Row] = []
        for raw in names if dirs.cur is not None else ():
            if len(kept) >= self._options.judged_at_most:
                break
            known = self._claims.get(raw)
            if known is not None and known.name.token is not None:
                kept[raw] = known
                continue
            try:
                found = os.lstat(raw, dir_fd=dirs.cur)
            except OSError:
                continue  # gone since it was listed
            if known is not None and known.inode == found.st_ino and known.ctime == found.st_ctime:
                kept[raw] = known
                continue
            name = parse(raw, claimed=True)
            row = claim_row(name, found)
            if stat.S_ISREG(found.st_mode):
                kept[raw] = _Claim(name, found.st_ino, found.st_ctime, now, row)
            else:
                irregular.append(row)
        return kept, tuple(irregular)

    def _held(self, claim: _Claim) -> float:
        return claim.row.in_box_age(self._processes.wall()) or 0.0


# Gathers the consumers of a spool: who holds the claims that a look has judged, and who has a presence file and no claim. What it
# costs is bounded: by the number of presence files and processes that are looked at, and by a rest after each gathering that
# grows with the time that it took.

_TOKEN = re.compile(r"[0-9a-f]{32}")
_IDS = 8
"""Claims of a consumer that are named."""
_LISTED = 2_000
"""Consumers that are listed, the most important ones."""
_IDLE_TESTED = 1_000
"""Consumers without a claim whose presence is tested."""
_EXITED = 20
"""Exited consumers without a claim that are listed: they are the past."""
_SAMPLED = 500
"""Processes that are asked what they use."""
_SAMPLED_EVERY = 1.0
"""Seconds between two samples of what processes use, and between two tests of presence."""
_SHARE = 20
"""The same as a multiple of the time that gathering took."""


def _presence_tokens(dirs: SpoolDirs) -> list[str] | None:
    """The tokens that have a presence file; None where there has never been one. Raises ``OSError``."""
    folder = dirs.private_dir(presence.CONSUMERS)
    return None if folder is None else list(filter(_TOKEN.fullmatch, dirs.files.list(folder)))


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
    claimants = [
        ConsumerRow(
            verdict=some[0].verdict or Verdict.UNKNOWN,
            evidence=some[0].evidence,
            owner=some[0].owner or Owner(),
            token=token or None,
            claims=len(some),
            claimed_at=min(began(some), default=None),
            claimed_is_bound=some[0].since_is_bound,
            last_claim_at=max(began(row for row in some if not row.since_is_bound), default=None),
            ids=tuple(row.id for row in some[:_IDS]),
        )
        for (token, _, _), some in held.items()
    ]
    return claimants, nameless


class _Sample(Frozen):
    """Use of a process at a time (``Processes.boottime``), and its ``usage`` since the sample before."""

    at: float
    use: ProcessUse
    usage: Usage


class ConsumerGatherer(Struct):
    """Remembers from time to time what was found of the consumers of one spool."""

    _processes: Processes
    _token_judge: TokenJudge
    _samples: dict[int, _Sample] = {}
    _exited: dict[str, ConsumerRow] = {}
    _last: ConsumerList | None = None
    _due: float = float("-inf")

    def gather(
        self, dirs: SpoolDirs, rows: Sequence[Row], certainty: Certainty, taken_at: float, *, complete: bool
    ) -> ConsumerList:
        """Gathers the consumers as of a look at ``taken_at`` that judged the claims ``rows``, the oldest first; ``complete``:
        there are no others."""
        began = self._processes.boottime()
        if self._last is not None and began < self._due:
            return self._last
        claimants, nameless = claiming(rows)
        idle, untested, error = self._without_claim(dirs, {one.token for one in claimants}, certainty)
        found = sorted([*claimants, *idle], key=lambda one: (-one.rank, one.claimed_at is None, one.claimed_at or 0.0))
        exited = sum(one.exited for one in found)
        listed = found[: min(_LISTED, len(found) - max(0, exited - _EXITED))]
        self._sample(listed)
        error = error or ("" if complete else f"only the first {len(rows):,} claims are counted")
        used = (
            one.replace(usage=sample.usage)
            if (sample := self._samples.get(one.owner.pid or 0)) and one.verdict is Verdict.ALIVE and one.owner.user is not None
            else one
            for one in listed
        )
        self._last = ConsumerList(tuple(used), taken_at, len(found) - len(listed) + untested, nameless, error)
        ended = self._processes.boottime()
        self._due = ended + max(_SAMPLED_EVERY, _SHARE * (ended - began))
        return self._last

    def _without_claim(
        self, dirs: SpoolDirs, claiming: set[str | None], certainty: Certainty
    ) -> tuple[list[ConsumerRow], int, str]:
        """Tests the consumers that have a presence file and no claim; those found dead are not tested again. Returns them, how
        many were not tested, and why none are visible."""
        try:
            tokens = _presence_tokens(dirs) or []
        except OSError as problem:
            return [], 0, f"consumers without a claim are not visible: {problem.strerror}"
        there = set(tokens)
        self._exited = {token: one for token, one in self._exited.items() if token in there}
        idle = [token for token in tokens if token not in claiming and token not in self._exited]
        known = {one.token for one in self._last.consumers} if self._last is not None else set()
        idle.sort(key=lambda token: token not in known)  # known ones first, so that the list stays the same
        looked = {token: presence.look(dirs, token) for token in islice(idle, _IDLE_TESTED)}
        looked = {token: seen for token, seen in looked.items() if seen.state != "missing"}
        rows = [
            ConsumerRow(verdict, evidence, owner, token)
            for token, (verdict, evidence, owner, *_) in self._token_judge.judge(looked, certainty).items()
        ]
        self._exited.update((one.token, one) for one in rows if one.exited and one.token is not None)
        past = sorted(self._exited.values(), key=lambda one: one.owner.start or 0.0, reverse=True)
        found = [*(one for one in rows if not one.exited), *(one for one in past if one.token not in claiming)]
        return found, max(0, len(idle) - _IDLE_TESTED), ""

    def _sample(self, listed: Iterable[ConsumerRow]) -> None:
        """Samples what the processes of running consumers use, as far as they are visible."""
        running = (one.owner for one in listed if one.verdict is Verdict.ALIVE and one.owner.user is not None)
        pids = dict.fromkeys(owner.pid for owner in running if owner.pid is not None)
        before, self._samples = self._samples, {}
        for pid in islice(pids, _SAMPLED):
            use, at = self._processes.use(pid), self._processes.boottime()
            if use is None:
                continue
            last, cpu = before.get(pid), None
            if last is not None and last.use.started == use.started:
                cpu = max(0.0, use.cpu - last.use.cpu) / max(0.001, at - last.at)
                command = last.usage.command  # read once
            else:
                command = self._processes.command_line(pid)
            self._samples[pid] = _Sample(at, use, Usage(cpu, use.memory, use.stopped, command))


# Judges the files in ``tmp`` by their writers.

_WRITER = r"(?s)[0-9]{10,17}\.(?:(?:M[0-9]+)?P)?([0-9]{1,10})(?:[A-Za-z_][A-Za-z0-9_]*)?\.(.+)\Z"
_SETTLED = 1.0
_OPENERS_FOR = 5.0
_NOT_READ = float("-inf"), frozenset[tuple[int, int]](), Descriptors({}, None)
"""When it was read who has which files open, and who that is."""


def writer_of(id: str) -> Owner:
    r"""Returns the writer in an id, ``<time>.<pid>.<host>`` (maildir(5)), which writes ``/`` and ``:`` of a host name as ``\057``
    and ``\072``; an ``Owner`` without a pid if it has none."""
    found = re.match(_WRITER, id)
    if found is None:
        return Owner()
    return Owner(found.group(2).replace("\\057", "/").replace("\\072", ":"), int(found.group(1)))


class _File(Struct):
    """A file as it is now, and the time of its last change (CLOCK_BOOTTIME). ``own``: it is named as spooltop names files."""

    status: os.stat_result
    still_since: float
    grew: bool
    row: Row
    own: bool
    writer: Owner


_Files = dict[tuple[str, int], _File]
"""Files by name and inode."""


class TmpJudge(Struct):
    """Judges the files in ``tmp``, look after look."""

    _processes: Processes
    _lock_table: Callable[[], LockTable]
    _at_most: int
    _files: _Files = {}
    _opened: tuple[float, frozenset[tuple[int, int]], Descriptors] = _NOT_READ
    irregular: Rows = ()

    def look(
        self, dirs: SpoolDirs, mount: Mount | None, tmp: BoxScan, certainty: Certainty, progress: Progress
    ) -> tuple[list[Row], bool]:
        """Judges the files of a scan of ``tmp``. Returns their rows, oldest first, and whether they are all. Raises ``Stopped``
        where ``progress`` does."""
        count = len(tmp.names) + len(tmp.staged)
        progress.begin("files in tmp found", count)
        names = progress.each(chain(tmp.names, tmp.staged))
        self._files, self.irregular = files, _ = self._looked_up(dirs, mount, names, certainty, progress)
        rows = sorted((file.row for file in files.values()), key=lambda row: (row.in_box_since or 0.0, row.name))
        return rows, count <= self._at_most

    def judge_again(
        self, dirs: SpoolDirs, mount: Mount | None, names: Iterable[str], certainty: Certainty
    ) -> Verdicts:
        """Judges ``names`` again with the help of earlier looks: name → (verdict, evidence). Leaves out names that have gone.
        Reads again who has them open: they are about to be moved."""
        self._opened = _NOT_READ
        files, _ = self._looked_up(dirs, mount, names, certainty, Progress())
        self._files.update(files)
        return {raw: (file.row.verdict, file.row.evidence) for (raw, _), file in files.items()}

    def _looked_up(
        self, dirs: SpoolDirs, mount: Mount | None, names: Iterable[str], certainty: Certainty, progress: Progress
    ) -> tuple[_Files, Rows]:
        """Returns the files among ``names`` as they are now, judged, and the irregular ones."""
        now = self._processes.boottime()
        with closing(Folders(dirs)) as folders:
            files, irregular = self._found(folders, names, now)
            if files:
                progress.begin("files in tmp judged", len(files))
                self._judge(folders, files, now, certainty, mount, progress)
        return files, tuple(irregular)

    def _found(self, folders: Folders, names: Iterable[str], now: float) -> tuple[_Files, list[Row]]:
        """Returns the files among ``names`` as they are now, and the irregular ones."""
        files: _Files = {}
        irregular: list[Row] = []
        for raw in names:
            if len(files) >= self._at_most:
                break
            try:
                status = _stat(folders, raw)
            except OSError:
                continue  # moved to new meanwhile, as it should be
            if not stat.S_ISREG(status.st_mode):
                irregular.append(tmp_row(raw, status))
                continue
            key = (raw, status.st_ino)
            file = self._files.get(key)
            if file is None or (file.status.st_size, file.status.st_mtime_ns) != (status.st_size, status.st_mtime_ns):
                row = tmp_row(raw, status)
                name = parse(row.name, claimed=False)
                # Whoever chose an id for a put did not mean the writer of the file.
                writer = Owner() if name.own and not is_own_id(name.id) else writer_of(name.id)
                file = _File(status, now, file is not None, row, name.own, writer)
            else:
                file.status = status
                file.grew = file.grew and now - file.still_since < 2 * _SETTLED
            files[key] = file
        return files, irregular

    def _judge(
        self, folders: Folders, files: _Files, now: float, certainty: Certainty, mount: Mount | None,
        progress: Progress,
    ) -> None:  # fmt: skip
        table = self._lock_table()
        locked = {
            key: line.pid for key, file in files.items() for line in table.of(file.status, mount)
            if line.kind != "flock" and line.exclusive and not line.waits
        }  # fmt: skip
        idle = [file for key, file in files.items() if key not in locked and not file.grew]
        opened = self._opened_by({(file.status.st_dev, file.status.st_ino) for file in idle}, now)
        asking = (file.writer.pid for file in idle if file.row.verdict is not Verdict.ABANDONED)
        pids = {pid for pid in asking if pid is not None}
        # Looked up all together where one is gone here, because that costs a read of every ``status`` there is.
        namesakes = cache(lambda: self._processes.namesakes(pids))

        def judged(raw: str, file: _File) -> tuple[Verdict, str, Owner]:
            """The verdict on a file that is not locked and does not grow. Once abandoned, it stays so until somebody opens it."""
            owner, lock_free = file.writer, file.own and not table.unseen  # a writer of spooltop's would hold its lock
            pid = owner.pid
            open_in = opened.by_file.get((file.status.st_dev, file.status.st_ino), ())
            unseen = opened.unseen_writers(file.status, os.geteuid(), partial(_has_acl, folders, raw))
            # Who has it not open; None: anybody may have.
            nobody = None if unseen is None else _nobody(file.status, unseen, bool(open_in))
            if unseen != "" and lock_free and pid is not None:
                nobody = "its lock is free"
            if writing := [one.pid for one in open_in if one.writing is not False]:
                owner = self._owner(writing[0])
                return Verdict.WRITING, f"{writing[0]} {escape(owner.command or '')}".rstrip() + " has it open", owner
            if file.row.verdict is Verdict.ABANDONED:
                return file.row.verdict, file.row.evidence, file.row.owner or Owner()
            if owner.host is not None and not self._is_here(owner.host):
                return Verdict.UNKNOWN, f"written on host {escape(owner.host)}, ask there", owner
            there, not_here = None if pid is None else self._processes.exists(pid), f"no pid {pid} here"
            if not certainty.local or not certainty.all_pids:
                return Verdict.UNKNOWN, not_here if there is False else "its writer is not visible from here", owner
            if nobody is None:
                words = "who has it open is not visible to you"
                if there is None:
                    return Verdict.UNKNOWN, words, owner
                if there:
                    return Verdict.UNKNOWN, f"pid {pid} is running · {words}", self._owner(pid)
                return Verdict.UNKNOWN, f"{pid} {EXITED} · {words}", owner
            if pid is not None and there is not False:
                words = ", but does not have it open" if self._processes.files_of(pid) is not None else ""
                return Verdict.UNKNOWN, f"pid {pid} is running{words}", self._owner(pid)
            if pid is None and not lock_free:
                return Verdict.UNKNOWN, f"{nobody}, no writer in its name", owner
            if pid is not None and (contained := namesakes()) is not None:
                if contained[pid]:
                    return Verdict.UNKNOWN, f"{not_here}, but a container has that pid", owner
                # Gone: it cannot be between two steps, so one look is enough.
                return Verdict.ABANDONED, f"{pid} {EXITED} · {nobody}", owner
            if not lock_free:
                return Verdict.UNKNOWN, f"{not_here}, but not all processes are visible to you", owner
            # Between its creation and its lock, and between its lock and its move, a file of our own looks left behind.
            if now - file.still_since < _SETTLED:
                return Verdict.UNKNOWN, "not watched long enough", owner
            return Verdict.ABANDONED, f"{'its lock is free' if pid is None else not_here} · {nobody}", owner

        for key, file in progress.each(list(files.items())):
            pid = file.writer.pid
            if key in locked:
                verdict, evidence, owner = Verdict.WRITING, "its writer holds its lock", self._owner(max(locked[key], 0) or pid)
            elif file.grew:
                verdict, evidence, owner = Verdict.WRITING, "growing", self._owner(pid)
            else:
                verdict, evidence, owner = judged(key[0], file)
            if verdict is Verdict.ABANDONED and not _is_there(folders, *key):
                del files[key]  # it was moved on while we looked
                continue
            file.row = file.row.judged(verdict, evidence, owner)

    def _is_here(self, host: str) -> bool:
        mine = self._processes.host()
        return host in (mine, encode_value(mine)) or (len(host) >= 25 and encode_value(mine).startswith(host))

    def _opened_by(self, wanted: set[tuple[int, int]], now: float) -> Descriptors:
        """Returns the processes that have the files open. They are read again when ``wanted`` has new files, and every few
        seconds."""
        if not wanted:
            return Descriptors({}, ())
        asked_at, known, opened = self._opened
        if not wanted <= known or now - asked_at > _OPENERS_FOR:
            opened = self._processes.descriptors(wanted)
            self._opened = (now, frozenset(wanted), opened)
        return opened

    def _owner(self, pid: int | None) -> Owner:
        """Returns the visible facts about a process; its command and user are read once."""
        process = None if pid is None else self._processes.process(pid)
        return Owner(pid=pid) if process is None else _owner_of(self._processes.describe(process))


def _nobody(found: os.stat_result, unseen: str, has_readers: bool) -> str:
    """States that nobody has a file open, as far as its writers can be seen: ``unseen`` as ``Descriptors.unseen_writers``."""
    mine = found.st_uid == os.geteuid()
    who = "nobody" if not unseen else "none of your processes" if mine else f"no process of {user_name(found.st_uid)}"
    words = f"{who} has it open for writing" if has_readers else f"{who} has it open"
    return f"{words} ({unseen} are not visible)" if unseen else words


def _has_acl(folders: Folders, raw: str) -> bool:
    """True where an access control list may give more users the right to write (acl(5))."""
    folder, _, name = raw.rpartition("/")
    try:
        os.getxattr(f"{PROC}/self/fd/{folders.of(Box.TMP, folder).fd}/{name}", "system.posix_acl_access", follow_symlinks=False)
    except OSError as error:
        return error.errno not in (errno.ENODATA, errno.ENOTSUP)
    return True


def _stat(folders: Folders, raw: str) -> os.stat_result:
    folder, _, name = raw.rpartition("/")
    return folders.files.stat(name, folders.of(Box.TMP, folder).fd)


def _is_there(folders: Folders, raw: str, ino: int) -> bool:
    """True if the file still has this name, as far as that can be seen."""
    try:
        return _stat(folders, raw).st_ino == ino
    except OSError:
        return False


# Judges the claims and the files in ``tmp`` at each look.

_COUNTED_FOR = 1.0
"""Seconds for which a number of consumers is kept."""


class JudgedRows(Frozen):
    """Claims and files in ``tmp`` of one look, the oldest first. ``irregular`` are the entries of the two boxes that are no
    messages or have a second name."""

    claims: Rows = ()
    all_claims: bool = True
    tmp: Rows = ()
    all_tmp: bool = True
    irregular: Rows = ()

    def of(self, box: Box) -> tuple[Rows, bool]:
        """Returns the rows of ``tmp`` or ``cur``, and whether they are all that are there."""
        return {Box.CUR: (self.claims, self.all_claims), Box.TMP: (self.tmp, self.all_tmp)}.get(box, ((), True))

    @property
    def counts(self) -> VerdictCounts:
        return VerdictCounts.of(self.claims, self.tmp)


class RowJudge:
    """Remembers from look to look what was found out about holders and writers. In a mail folder nothing is a claim."""

    def __init__(self, world: System, options: OpenOptions) -> None:
        self._monotonic = world.monotonic
        self._processes = world.processes
        self._mail = options.layout == "mail"
        self._pids_here = check_pids(options.pids)
        self.boot_clock = BootClock(world.processes)
        self.claims = ClaimJudge(
            world.processes, self.boot_clock, options, Idle(world.processes), TokenJudge(world.processes, options.hosts)
        )
        self.tmp = TmpJudge(world.processes, world.lock_table, options.judged_at_most)
        self._consumers: tuple[float, int | None] | None = None

    def look(self, dirs: SpoolDirs, mount: Mount | None, scans: Scans) -> JudgedRows:
        """Judges the names of the scans."""
        progress, certainty = Progress(), self.certainty(mount)
        claims, whole = ((), True) if self._mail else self.claims.look(dirs, scans[Box.CUR], certainty, progress)
        files, all_files = self.tmp.look(dirs, mount, scans[Box.TMP], certainty, progress)
        noted = (row for row in (*claims, *files) if row.note)
        irregular = (*self.claims.irregular, *self.tmp.irregular, *noted)
        return JudgedRows(claims, whole, tuple(files), all_files, irregular)

    def box_state(self, box: Box, scan: BoxScan, judged: JudgedRows) -> BoxState:
        """Returns the state of ``tmp``, ``new`` or ``cur``. In a mail folder the oldest in ``cur`` is the oldest put."""
        if scan.error:
            return BoxState(box, None, False, error=scan.error, as_of=scan.as_of)
        size, oldest = scan.bytes, scan.oldest_at
        if box is Box.TMP or (box is Box.CUR and not self._mail):
            rows, whole = judged.of(box)
            size, oldest = sum(row.size or 0 for row in rows) if whole else None, min(began(rows), default=None)
        many = len(scan.names) + len(scan.staged)
        return BoxState(box, many, scan.complete, size, scan.bytes_estimated, oldest, "", scan.as_of)

    def consumers(self, dirs: SpoolDirs, mount: Mount | None, scans: Scans) -> int | None:
        """Counts the running consumers, at most once a second; None where they cannot be known."""
        if self._mail or scans[Box.CUR].error:
            return None
        at = self._monotonic()
        if self._consumers is None or at - self._consumers[0] >= _COUNTED_FOR:
            alive = self.claims.count_running(dirs, self.certainty(mount))
            if alive is None and _never_claimed(dirs, scans[Box.NEW]):
                alive = 0
            self._consumers = (at, alive)
        return self._consumers[1]

    def certainty(self, mount: Mount | None) -> Certainty:
        """The conditions for conclusions about pids, as of now: the wall clock may have jumped."""
        self.boot_clock.look()
        return Certainty(is_local(mount), self._processes.in_first_namespace(), self._pids_here)


def _never_claimed(dirs: SpoolDirs, new: BoxScan) -> bool:
    """True if the oldest message that waits is of our own, and no consumer of our own was ever there."""
    try:
        own = new.oldest is not None and parse(new.oldest[1], claimed=False).own
        return own and dirs.private_dir(presence.CONSUMERS) is None
    except OSError:
        return False
