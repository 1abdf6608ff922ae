"""``spooltop move`` under kill -9, between directories and streams, with consumers at both ends.

First call by call: the command as a process of its own under strace(1), killed at each call that changes something on disk or is
sent to a server; and each run after such a kill killed in turn. Then at random, along a chain of three queues whose consumers all
work meanwhile. The oracle is a census by content: what is acked anywhere, waits in the target or is left in the source must be
what was put, each content as often. Ids and foreign names come again, the same order is put twice, a file comes back from a
backup. The rare states that a kill leaves are named, and a state that was never reached is a violation.
"""

from __future__ import annotations

import io
import os
import random
import shutil
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from spooltop import open_queue
from spooltop.backends.redis.stream_names import StreamNames
from spooltop.backends.redis.stream_queue import StreamQueue, connect
from spooltop.cli.commands.move import move_messages
from spooltop.engine import Spool
from tests.scratch import scratch

from .calls import CHANGES
from .figures import Figure
from .forked import Ended, Forked, NotTraced, command
from .storm import CHILDREN, fork_child
from .straced import CALL
from .tickets import redis_server

__all__ = ["BAR", "NAME", "last", "run"]

NAME = "move between directories and streams, killed at every changing call, with consumers at both ends"
BAR = "each content as often as it was put, nothing left beside the queues, every rare state reached"

LEASE = 0.3
"""Seconds: so long the claims of a killed mover of a stream wait, in the part at random."""
STATES = ("claimed, not put", "put, not acked", "acked, key left", "recorded, not in new", "taken over, not put")
"""States of a source and a target that a kill must have left: the second last only in a directory."""
DIRECTIONS = (("directory", "directory"), ("directory", "stream"), ("stream", "directory"), ("stream", "stream"))
SENDS = {"sendto", "sendmsg", "send"}
PUT = (b"order 17", b"same", b"same")
QUICK = 9
"""Every so many of the kills belong to the quick part."""


class Place:
    """A source and a target of one direction, made anew for each trial."""

    def __init__(self, direction: tuple[str, str], folder: Path, socket: str, number: int) -> None:
        self.direction = direction
        self._folder = folder
        self._socket = socket
        self._kinds = dict(zip(("from", "to"), direction, strict=True))
        self._names = {end: StreamNames(f"{end}-{number}", "work") for end in self._kinds}
        self.ends = {end: self._address(end) for end in self._kinds}
        self.wanted: Counter[bytes] = Counter()
        self.acked: Counter[bytes] = Counter()

    def _address(self, end: str) -> str:
        if self._kinds[end] == "directory":
            return str(self._folder / end)
        return f"unix://{self._socket}#{self._names[end].stream}/work"

    @property
    def words(self) -> list[str]:
        return ["move", self.ends["from"], self.ends["to"], "--yes", "--no-durable"]

    def make(self) -> None:
        """Makes both queues, with messages and with what a dead consumer held in the source."""
        self.wanted, self.acked = Counter(), Counter()
        with connect(f"unix://{self._socket}") as client:
            for end, kind in self._kinds.items():
                if kind == "directory":
                    shutil.rmtree(self.ends[end], ignore_errors=True)
                    Spool.create(self.ends[end], durable=False).close()
                else:
                    keys = client.keys(f"*{self._names[end].stream}*")
                    client.delete(self._names[end].stream, *keys)
                    client.xgroup_create(self._names[end].stream, "work", "0", mkstream=True)
        self._put(b"held by a dead consumer")
        child = os.fork()
        if child == 0:
            open_queue(self.ends["from"], durable=False).claim()
            os._exit(0)
        os.waitpid(child, 0)
        self.end_leases()
        for content in PUT:
            self._put(content, "order-17" if content == PUT[0] else None)
        self._deliver(b"a file")

    def _put(self, content: bytes, id: str | None = None) -> None:
        """Puts a message; one with an ``id`` only if no message with it is there."""
        with open_queue(self.ends["from"], durable=False) as queue:
            found = queue.put(content, id=id if isinstance(queue, Spool) else None)
        self.wanted[content] += not getattr(found, "duplicate", False)

    def _deliver(self, content: bytes) -> None:
        """Delivers a file as another program would, always under one name, unless a file with it waits there. It may as well have
        come from a backup: nothing tells it from the one before."""
        if self._kinds["from"] == "directory" and not (path := Path(self.ends["from"], "new", "job.1")).exists():
            draft = Path(self.ends["from"], "tmp", "job.1")
            draft.write_bytes(content)
            draft.rename(path)
            self.wanted[content] += 1

    def meanwhile(self) -> None:
        """What others do between a kill and the next run: consumers of both ends, an operator, what comes again."""
        self.end_leases()
        with open_queue(self.ends["from"], durable=False) as queue:
            queue.recover()
            if (claim := queue.claim()) is not None:
                self.acked[claim.data] += 1
                claim.ack()
        with open_queue(self.ends["to"], durable=False) as queue:
            if (claim := queue.claim()) is not None:
                self.acked[claim.data] += 1
                claim.ack()
        self._put(b"order 17 again", "order-17")
        self._deliver(b"a file")

    def end_leases(self) -> None:
        with connect(f"unix://{self._socket}") as client:
            for end, kind in self._kinds.items():
                names = self._names[end]
                if kind == "stream" and (keys := client.keys(names.lease("*"))):
                    client.delete(*keys)

    def contents(self, end: str) -> Counter[bytes]:
        found: Counter[bytes] = Counter()
        with open_queue(self.ends[end], durable=False) as queue:
            for claim in queue.claims():
                found[claim.data] += 1
                claim.ack()
        return found

    def state(self) -> tuple[set[str], dict[str, str]]:
        """Names the rare states that a killed move left, and returns the movers of messages that were not put. Changes
        nothing."""
        found: set[str] = set()
        held: dict[str, str] = {}
        with ExitStack() as stack:
            source, target = (stack.enter_context(open_queue(self.ends[end], durable=False)) for end in ("from", "to"))
            mover = stack.enter_context(source.mover(target.identity))
            for move in mover.interrupted():
                if not move.claims and self._records():
                    found.add("acked, key left")
                for name, key in move.claims:
                    # not by was_put, which would complete it
                    put = target._producer.find_key(key) if isinstance(target, Spool) else target.was_put(key)
                    found.add("put, not acked" if put else "claimed, not put")
                    if not put:
                        held[name.partition(",c=")[0] if ",c=" in name else name.rsplit(",", 2)[1]] = move.mover
                    elif isinstance(target, Spool) and os.listdir(Path(self.ends["to"], "tmp")):
                        found.add("recorded, not in new")
        return found, held

    def _records(self) -> int:
        if self._kinds["to"] == "directory":
            keys = Path(self.ends["to"], ".spooltop", "keys")
            return len(os.listdir(keys)) if keys.is_dir() else 0
        with connect(f"unix://{self._socket}") as client:
            return len(client.keys(self._names["to"].moved("*")))

    def left_beside(self) -> list[str]:
        """Lists what a move has left beside its queues: records of keys, and of movers."""
        found = [f"{self._records()} keys"] if self._records() else []
        if self._kinds["from"] == "directory":
            names = os.listdir(Path(self.ends["from"], ".spooltop", "consumers"))
            found += [f"presence {name}" for name in names if name[0] != "."]  # a dot: begun, and never a consumer
        else:
            with connect(f"unix://{self._socket}") as client:
                found += [f"consumer {name!r}" for name in client.hkeys(self._names["from"].consumers)]
        return found

    def refuses_itself(self) -> list[str]:
        """Moves the source into itself under another name."""
        source = self.ends["from"]
        if self._kinds["from"] == "directory":
            other = f"{source}-link"
            os.symlink(source, other)
        else:
            with connect(f"unix://{self._socket}") as client:
                client.xgroup_create(self._names["from"].stream, "other", "0")
            other = source.replace("/work", "/other")
        code = run_words(["move", source, other, "--yes"])
        return [] if code == 2 else [f"moved into itself: {code}"]

    def finish(self, run_one: Callable[[], Ended]) -> list[str]:
        """Runs the move until it has nothing left, and returns what is wrong then."""
        self.end_leases()
        if self._kinds["from"] == "directory":  # of a stream it would write this machine's own books
            run_words(["requeue", self.ends["from"], "ALL", "--yes"])
        for _ in range(4):
            ended = run_one()
            if ended.code in (0, 4):
                break
            self.end_leases()
        wrong = [] if ended.code in (0, 4) else [f"move ended with {ended.code}: {ended.out}{ended.err}"]
        wrong += self.left_beside()
        found = self.acked + self.contents("to") + self.contents("from")
        lost, extra = self.wanted - found, found - self.wanted
        return wrong + ([f"lost {dict(lost)}"] if lost else []) + ([f"too many {dict(extra)}"] if extra else [])


def run_words(words: Sequence[str]) -> int:
    """Runs a command in this process and returns its exit code."""
    return command(words, io.StringIO(), io.StringIO())


def shots_of(lines: Sequence[str]) -> list[tuple[str, int]]:
    """Lists the calls of a thread that change something: (name, its number). The first that is sent only greets the server; the
    parent of the commands sends once too."""
    seen: Counter[str] = Counter()
    found = []
    for line in lines:
        match = CALL.match(line)
        if match is None or ".out>" in line or ".err>" in line:
            continue
        seen[match[1]] += 1
        if match[1] in CHANGES or (match[1] in SENDS and seen[match[1]] > 1) or (match[1] == "openat" and "O_CREAT" in line):
            found.append((match[1], seen[match[1]]))
    return found


def call_by_call(quick: bool, socket: str, say: Callable[[str], None]) -> tuple[int, list[str], dict[tuple[str, str], set[str]]]:
    """Returns the number of kills, what was wrong, and the states that were reached by direction. Raises ``NotTraced``."""
    kills, wrong = 0, []
    reached: dict[tuple[str, str], set[str]] = {}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="spooltop-proof-", dir=scratch())))
        forked = stack.enter_context(Forked(folder, 1))
        for number, direction in enumerate(DIRECTIONS):
            place = Place(direction, folder / str(number), socket, number)
            (folder / str(number)).mkdir()
            states = reached.setdefault(direction, set())

            def plain(place: Place = place) -> Ended:
                return forked.run([place.words])[0]

            def killed(shot: tuple[str, int], place: Place = place) -> bool:
                (ended,), _ = forked.traced([place.words], shot[0], "-e", f"inject={shot[0]}:signal=KILL:when={shot[1]}")
                return ended.code == -signal.SIGKILL

            place.make()
            wrong += place.refuses_itself()
            place.make()
            (ended,), lines = forked.traced([place.words], "%file,%desc,%network")
            assert ended.code == 0, ended
            shots = list(dict.fromkeys(shot for calls in lines[ended.pid] for shot in shots_of(calls)))
            for at, shot in enumerate(thinned(shots, quick, number)):
                place.make()
                if not killed(shot):
                    continue
                kills += 1
                place.end_leases()
                before, held = place.state()
                states |= before
                place.meanwhile()
                if before and killed(shots[at * 5 % len(shots)]):  # the next one too, as it takes over
                    kills += 1
                    place.end_leases()
                    after, taken = place.state()
                    states |= after
                    if any(taken.get(message, mover) != mover for message, mover in held.items()):
                        states.add("taken over, not put")
                    place.meanwhile()
                found = place.finish(plain)
                wrong += [f"{' to '.join(direction)}, killed at {shot[0]} {shot[1]}: {words}" for words in found]
            say(f"{' to '.join(direction)}: {len(shots)} changing calls; reached: {', '.join(sorted(states))}")
    return kills, wrong, reached


def thinned(shots: Sequence[tuple[str, int]], quick: bool, number: int) -> Sequence[tuple[str, int]]:
    return shots[number % QUICK :: QUICK] if quick else shots


def missing(reached: dict[tuple[str, str], set[str]], quick: bool) -> Iterator[str]:
    """Yields the rare states that no kill reached: in the quick part, in no direction."""
    if quick:
        yield from (f"not reached: {one}" for one in STATES[:2] if not any(one in states for states in reached.values()))
        return
    for direction, states in reached.items():
        for one in STATES:
            if one not in states and not (one == "recorded, not in new" and direction[1] == "stream"):
                yield f"{' to '.join(direction)}, not reached: {one}"


class Dying:
    """A target or a mover whose process is killed at the ``at``-th step, just before or just after it."""

    def __init__(self, of: Any, countdown: list[int]) -> None:
        self._of = of
        self._countdown = countdown

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._of, name)
        return found if name in ("identity", "key", "holds", "leave", "interrupted", "counts") else self._step_of(found)

    def _step_of(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def step(*words: Any, **named: Any) -> Any:
            self._tick()
            found = method(*words, **named)
            self._tick()
            return found

        return step

    def _tick(self) -> None:
        self._countdown[0] -= 1
        if self._countdown[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)


def chain(quick: bool, socket: str, seed: int = 7) -> tuple[int, int, list[str]]:
    """Moves messages from a directory to a stream and on to a directory with movers that are killed at random, while a consumer
    of each of the three takes some, and forks children beside them; those of the directories are killed too. Returns the numbers
    of messages and kills, and what was wrong."""
    whole, kills = (60, 12) if quick else (600, 200)
    dice = random.Random(seed)
    url, jobs = f"unix://{socket}", f"jobs-{seed}"
    with tempfile.TemporaryDirectory(prefix="spooltop-move-") as name:
        folder = Path(name)
        StreamQueue.create(connect(url), jobs, "work", address=url).close()
        wanted = Counter(b"message %d" % (number // 2) for number in range(whole))  # each twice
        for end in ("a", "b"):
            Spool.create(folder / end, durable=False).close()
        with Spool(folder / "a", durable=False) as spool:
            for number in range(whole):
                spool.put(b"message %d" % (number // 2), source=f"s{number % 3}")

        def stream(lease: float = LEASE) -> Any:
            return StreamQueue(connect(url), jobs, "work", address=url, lease=lease)

        queues = [lambda: Spool(folder / "a", durable=False), stream, lambda: Spool(folder / "b", durable=False)]
        patient = [queues[0], lambda: stream(60.0), queues[2]]
        logs = [folder / f"consumer-{at}" for at in range(3)]
        consumers = [_start(log, queue) for log, queue in zip(logs, patient, strict=True)]
        killed = 0

        def kill_consumer() -> None:
            at = dice.choice((0, 2))  # the claim of one on a stream waits for its lease, which is long here
            os.kill(consumers[at], signal.SIGKILL)
            os.waitpid(consumers[at], 0)
            consumers[at] = _start(logs[at], patient[at])

        try:
            for source, target in pairwise(queues):
                killed += _moved(source, target, kills // 2, dice, whole, kill_consumer)
        finally:
            for consumer in consumers:
                os.kill(consumer, signal.SIGTERM)
            ended = [os.waitpid(consumer, 0)[1] for consumer in consumers]
        lines = [line for log in logs for line in log.read_bytes().splitlines()]
        found = Counter(line[1:] for line in lines if line.startswith(b"-"))
        cut = Counter(line[1:] for line in lines if line.startswith(b"+")) - found  # killed in an ack: done or not
        children = {line.decode()[1:] for line in lines if line.startswith(b"f")}
        for queue in patient:
            with queue() as left:
                left.recover()
                for claim in left.claims():
                    found[claim.data] += 1
                    claim.ack()
    wrong = [f"a consumer ended with {code}" for code in ended if code]
    wrong += [] if quick else [f"no child ended {ending}" for ending in CHILDREN if ending not in children]
    lost, extra = wanted - found - cut, found - wanted
    return whole, killed, wrong + [f"lost {one!r}" for one in lost.elements()] + [f"too many {one!r}" for one in extra.elements()]


def _start(path: Path, queue: Callable[[], Any]) -> int:
    """Starts a consumer that recovers and takes a message now and then, beside some of which it forks a child. It writes to
    ``path`` what it is about to ack (+), what it has acked (-) and how its children ended (f)."""
    path.touch()
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        stopped: list[int] = []
        signal.signal(signal.SIGTERM, lambda *_: stopped.append(1))
        with queue() as opened, path.open("ab", buffering=0) as acked:
            while not stopped:
                opened.recover()
                if (claim := opened.claim()) is not None:
                    if random.random() < 0.3:
                        ending = random.choice(list(CHILDREN))
                        acked.write(f"f{ending}\n".encode())
                        if fork_child(partial(CHILDREN[ending], opened, claim)) != 0:
                            raise AssertionError(f"a child failed: {ending}")
                    data = claim.data
                    acked.write(b"+" + data + b"\n")
                    claim.ack()
                    acked.write(b"-" + data + b"\n")
                time.sleep(0.15)
        code = 0
    finally:
        os._exit(code)


def _moved(
    source: Callable[[], Any], target: Callable[[], Any], kills: int, dice: random.Random, whole: int,
    between: Callable[[], object],
) -> int:  # fmt: skip
    """Moves everything with movers of which ``kills`` are killed at most, and returns how many were. Calls ``between`` after some
    of the kills."""
    killed = 0
    while True:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                countdown = [dice.randrange(1, 4 + 6 * whole // kills) if killed < kills else 0]
                with source() as from_queue, target() as to_queue, from_queue.mover(to_queue.identity) as mover:
                    left = move_messages(from_queue, Dying(to_queue, countdown), Dying(mover, countdown)).left
                code = 3 if left.ready or left.dead or left.running else 0
            finally:
                os._exit(code)
        dice.random()
        status = os.waitpid(child, 0)[1]
        if os.WIFSIGNALED(status):
            killed += 1
            if dice.random() < 0.2:
                between()
            time.sleep(LEASE)
        elif os.WEXITSTATUS(status) == 0:
            return killed
        elif os.WEXITSTATUS(status) != 3:
            raise AssertionError(f"a mover ended with {os.WEXITSTATUS(status)}")


def last(seconds: float, say: Callable[[str], None]) -> Figure:
    """Runs the part at random for ``seconds``, each time with other dice."""
    end, began = time.monotonic() + seconds, time.time_ns()
    moved = killed = 0
    wrong: list[str] = []
    with redis_server() as socket:
        if socket is None:
            return Figure(NAME, BAR, 0, 0, 1, "", "no redis-server here")
        while time.monotonic() < end and not wrong:
            seed = began + moved
            messages, kills, wrong = chain(False, socket, seed)
            moved, killed = moved + messages, killed + kills
            say(f"{moved:,} messages, {killed:,} movers killed, {len(wrong)} wrong (dice {seed})")
    for words in wrong:
        say(words)
    return Figure(NAME, BAR, moved, len(wrong), 0, f"{moved:,} messages, {killed} movers killed at random")


def run(quick: bool, say: Callable[[str], None]) -> Figure:
    """Runs both parts on a server of its own."""
    with redis_server() as socket:
        if socket is None:
            return Figure(NAME, BAR, 0, 0, 1, "", "no redis-server here")
        moved, killed, wrong = chain(quick, socket)
        if shutil.which("strace") is None:
            return Figure(NAME, BAR, moved, len(wrong), 1, f"{killed} movers killed", "no strace here")
        try:
            kills, more, reached = call_by_call(quick, socket, say)
        except NotTraced as error:
            say(f"not to be traced here: {error}")
            return Figure(NAME, BAR, moved, len(wrong), 1, f"{killed} movers killed", "nobody may trace here")
    wrong += more + list(missing(reached, quick))
    for words in wrong:
        say(words)
    told = f"{moved:,} messages, {killed} movers killed at random, {kills} call by call; {len(STATES)} rare states"
    return Figure(NAME, BAR, moved + kills, len(wrong), 0, told)
