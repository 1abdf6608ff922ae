"""The contract of a queue, on a directory and on a stream: the same tests, whose differences come from ``Queue.guarantees`` and
from what a queue refuses."""

from __future__ import annotations

import gc
import io
import os
import pickle
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from spooltop import open_queue
from spooltop.errors import ClaimLost, Closed, NotASpool, Refused, SpooltopError, UsageError
from spooltop.model.plan import Selection
from spooltop.model.queue import Guarantee, Queue, QueueClaim
from spooltop.model.vocabulary import Action, Box
from tests.builders import SpoolWorld
from tests.engine.helpers import in_child
from tests.matrix.streams import died
from tests.stream_builders import StreamWorld
from tests.stream_servers import KINDS, running

HANDED_BACK = ("cur/~spooltop", "cur/~later")
"""Places of claims that belong to no consumer: their messages wait."""


class Contract:
    """A queue as its users see it: opened several times, and by consumers that die."""

    def __init__(self, world: Any, stack: ExitStack) -> None:
        self.world, self._stack = world, stack

    def open(self, **options: Any) -> Queue:
        return self._stack.enter_context(closing(open_queue(self.world.target, **{"durable": False, **options})))

    def boxes(self) -> dict[str, str]:
        """Content of each message → its box; each is in one place."""
        census = self.world.census()
        assert all(len(places) == 1 for places in census.values()), census
        return {content: self._box(*places) for content, places in census.items()}

    def _box(self, place: str) -> str:
        return "new" if place in HANDED_BACK else next(box for box in Box if box in place.split("/"))

    def take_away(self, claim: QueueClaim) -> None:
        """Has an operator put a claim back by force."""
        _, result = self.world.do(Action.REQUEUE, Selection(ids=(claim.id,)), force=True)
        assert len(result.items) == 1

    def consumer_dies(self, work: Callable[[Queue], object] = lambda queue: queue.claim()) -> None:
        """Has a process do ``work`` with a queue of its own, which holds what that returns, and die. Its death is known then."""

        def consume() -> None:
            queue = open_queue(self.world.target, durable=False)
            held = work(queue)
            os.kill(os.getpid(), signal.SIGKILL if held is not None else signal.SIGTERM)

        assert died(consume)
        self.end_leases()

    def end_leases(self) -> None:
        """Lets the time pass after which the deaths of consumers are known, where that takes time."""
        getattr(self.world, "end_leases", lambda: None)()


@pytest.fixture(scope="module", params=("directory", *KINDS))
def new_world(request: pytest.FixtureRequest) -> Iterator[Callable[[Path], Any]]:
    if request.param == "directory":
        yield SpoolWorld
        return
    with TemporaryDirectory(prefix="spooltop-streams-") as folder, running(request.param, Path(folder)) as socket:
        yield lambda place: StreamWorld(place, socket)


@pytest.fixture
def contract(new_world: Callable[[Path], Any], memory: Path) -> Iterator[Contract]:
    with ExitStack() as stack:
        yield Contract(stack.enter_context(new_world(memory)), stack)


@pytest.fixture
def queue(contract: Contract) -> Queue:
    return contract.open()


def claimed(queue: Queue) -> QueueClaim:
    claim = queue.claim()
    assert claim is not None
    return claim


# Put


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, io.BytesIO])
@pytest.mark.parametrize("content", [b"", b"\0\xffhi", b"x" * 3_000_000], ids=len)
def test_a_message_comes_out_as_it_went_in(queue: Queue, content: bytes, kind: Callable[[bytes], Any]) -> None:
    id = queue.put(kind(content), source="i message/ü,")
    assert (queue.depth(), queue.peek()) == (1, id)
    with claimed(queue) as claim:
        assert (claim.id, claim.attempt, claim.source, claim.data) == (id, 1, "i message/ü,", content)
        with claim.open() as file:
            assert os.pread(file.fileno(), 3, 0) == content[:3] and file.read() == content
        assert queue.claim() is None and (queue.depth(), queue.peek()) == (0, None)
    assert queue.claim() is None and queue.recover() == []


def test_what_is_no_data_is_refused_and_leaves_nothing(contract: Contract, queue: Queue) -> None:
    class Broken(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            raise OSError(5, "unplugged")

    wrong: Any
    for wrong in ("text", None, 5, [b"x"]):
        with pytest.raises(TypeError):
            queue.put(wrong)
        with pytest.raises(TypeError):
            queue.put_many([b"good", wrong])
    for put in (queue.put, lambda text: queue.put_many([b"good", text])):
        with pytest.raises(TypeError):
            put(io.StringIO("text"))  # type: ignore[arg-type]
        with pytest.raises(OSError, match="unplugged"):
            put(Broken())
    with pytest.raises(TypeError):
        queue.put_many(b"one message")  # type: ignore[arg-type]
    assert contract.boxes() == {} and queue.depth() == 0


def test_several_are_put_in_their_order(queue: Queue) -> None:
    assert queue.put_many([]) == []
    ids = queue.put_many((b"%d" % number for number in range(250)), source="bulk")
    assert len(set(ids)) == 250 == queue.depth()
    claims = list(queue.claims())
    assert [(claim.id, claim.data, claim.source) for claim in claims] == [(id, b"%d" % at, "bulk") for at, id in enumerate(ids)]
    queue.ack_many(claims)
    assert queue.depth() == 0


@pytest.mark.parametrize("key", ["invoice/2026 11", "k/../k", "", "two\nlines", "ü" * 300, "\x1b[31m\0"])
def test_a_key_is_put_once_also_when_it_is_done(contract: Contract, queue: Queue, key: str) -> None:
    first = queue.put(b"1", key=key)
    assert queue.put(b"2", key=key) == first and queue.was_put(key)
    with claimed(queue) as claim:
        assert (claim.id, claim.data) == (first, b"1")
    again: Any = contract.open().put(b"3", key=key, source="other")
    assert again == first and again.duplicate and not getattr(first, "duplicate", True)
    other = queue.put(b"4", key=f"{key}.")
    assert other != first and contract.boxes() == {"4": "new"}
    queue.forget_key(key)
    assert queue.put(b"5", key=key) != first and contract.boxes() == {"4": "new", "5": "new"}


def test_a_key_that_begins_like_those_of_a_move_leaves_them_alone(queue: Queue) -> None:
    moved, other = queue.put(b"1", key="move:x.1"), queue.put(b"2", key="move:x.")
    assert moved != other and queue.was_put("move:x.") and queue.put(b"3", key="move:x.") == other
    queue.forget_key("move:x.")
    assert not queue.was_put("move:x.") and queue.put(b"4", key="move:x.1") == moved


def test_a_key_for_ever_is_no_guarantee_of_a_queue_that_forgets(queue: Queue) -> None:
    assert {Guarantee.ORDERED} <= queue.guarantees <= frozenset(Guarantee)
    assert Guarantee.DURABLE not in queue.guarantees


@pytest.mark.parametrize(
    "id",
    [".", "..", "a/b", "../../etc/passwd", ".hidden", "a\0b", "a b", "a,b", "a:2,P12", "a,s=x", "a,n=5", "ü", "two\nlines",
     "100%", "[red]x[/]", "-rf",
     "\udcff"],
)  # fmt: skip
def test_an_id_is_put_once_while_it_is_in_any_box(contract: Contract, queue: Queue, id: str) -> None:
    try:
        assert queue.put(b"1", id=id) == id
    except UsageError as refused:
        assert "gives its ids itself; use key=" in str(refused) and contract.boxes() == {}
        return
    assert queue.put(b"2", id=id, source="other") == id == queue.peek()
    claim = claimed(queue)
    assert (claim.id, claim.data, claim.attempt) == (id, b"1", 1)
    queue.put(b"3", id=id)
    claim.release()
    claim = claimed(queue)
    assert (claim.id, claim.attempt) == (id, 2)
    claim.reject("no")
    queue.put(b"4", id=id)
    assert contract.boxes() == {"1": "rejected"} and queue.depth() == 0
    queue.put(b"5", id="x")
    claimed(queue).ack()
    queue.put(b"6", id="x")
    assert contract.boxes() == {"1": "rejected", "6": "new"}


@pytest.mark.parametrize("wrong", [{"id": ""}, {"id": "x" * 300}, {"not_before": -1.0}, {"not_before": float("nan")}])
def test_what_a_message_cannot_have_is_refused(contract: Contract, queue: Queue, wrong: Any) -> None:
    with pytest.raises(UsageError) as refused:
        queue.put(b"", **wrong)
    assert "\n" not in str(refused.value) and contract.boxes() == {}


@pytest.mark.parametrize(
    "source", ["[red]x[/]", "a\x1b]52;c;x\x07", "two\nlines", "../..", "\udcff", "a,n=5", "", "s" * 41, "é" * 5000]
)
def test_a_source_comes_back_or_is_refused(contract: Contract, queue: Queue, source: str) -> None:
    try:
        queue.put(b"1", source=source)
    except UsageError as refused:
        assert "source" in str(refused) and contract.boxes() == {}
        return
    with claimed(queue) as claim:
        assert claim.source == source


@pytest.mark.parametrize("wrong", [{"source": 5}, {"id": 5}, {"key": 5}, {"not_before": "soon"}])
def test_an_argument_of_the_wrong_kind_is_a_type_error(contract: Contract, queue: Queue, wrong: Any) -> None:
    with pytest.raises((TypeError, UsageError)):
        queue.put(b"", **wrong)
    assert contract.boxes() == {}


def test_many_processes_with_one_key_put_one_message(contract: Contract, queue: Queue) -> None:
    code = (
        "import sys; from spooltop import open_queue\n"
        "with open_queue(sys.argv[1], durable=False) as q:\n"
        "    print('open', flush=True); sys.stdin.readline()\n"
        "    print(q.put(b'x', key='k', source=sys.argv[2]))"
    )
    workers = [started(code, contract, f"s{number}") for number in range(4)]
    go(workers)
    assert len({worker.communicate()[0] for worker in workers}) == 1 == queue.depth()


def started(code: str, contract: Contract, *words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", code, contract.world.target, *words]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def go(workers: Sequence[subprocess.Popen[str]]) -> None:
    """Waits until each has its queue open, and lets all begin at once."""
    assert [worker.stdout.readline() for worker in workers if worker.stdout] == ["open\n"] * len(workers)
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write("go\n")
        worker.stdin.flush()


# Claim


def test_the_end_of_a_block_acks_and_nothing_comes_again(contract: Contract, queue: Queue) -> None:
    queue.put(b"1")
    with claimed(queue) as claim:
        pass
    assert contract.boxes() == {}
    ends = (claim.ack, claim.release, lambda: claim.reject("no"), lambda: queue.ack_many([claim]))
    for end in ends:
        with pytest.raises(ClaimLost):
            end()
    with claim:  # once more: nothing is left to do
        pass


def test_an_exception_in_the_block_releases_with_a_delay(contract: Contract, queue: Queue) -> None:
    queue.put(b"1")
    with pytest.raises(KeyError, match="mine"), claimed(queue):
        raise KeyError("mine")
    assert queue.claim() is None and (queue.depth(), queue.peek()) == (1, None) and contract.boxes() == {"1": "new"}


def test_who_interrupts_the_program_says_nothing_of_the_message(queue: Queue) -> None:
    queue.put(b"1")
    with pytest.raises(KeyboardInterrupt), claimed(queue):
        raise KeyboardInterrupt
    assert claimed(queue).release() is None


def test_a_released_message_keeps_its_id_and_its_place_and_counts_its_attempts(queue: Queue) -> None:
    first, second = queue.put(b"1"), queue.put(b"2")
    for attempt in (1, 2, 3):
        claim = claimed(queue)
        assert (claim.id, claim.attempt) == (first, attempt)
        claim.release()
    assert queue.peek() == first and queue.depth() == 2
    claimed(queue).release(delay=600)
    assert (queue.peek(), queue.depth()) == (second, 2)
    with claimed(queue) as claim:
        assert claim.id == second
    assert queue.claim() is None


def test_a_delay_that_is_over_ends_a_wait(queue: Queue) -> None:
    id = queue.put(b"1")
    claimed(queue).release(delay=0.05)
    with queue.claim(timeout=30) or pytest.fail("nothing came") as claim:
        assert claim.attempt == 2
        claim.release(delay=0.05)
    while (waiting := queue.peek()) is None:
        os.sched_yield()
    assert waiting == id
    with claimed(queue) as claim:
        assert claim.attempt == 3


def test_a_rejected_message_is_set_aside(contract: Contract, queue: Queue) -> None:
    queue.put(b"1")
    claimed(queue).reject("no such user\nreally", ended="exit-65")
    assert contract.boxes() == {"1": "rejected"} and queue.claim() is None and queue.depth() == 0


def test_the_tenth_failure_rejects(contract: Contract, queue: Queue) -> None:
    queue.put(b"poison")
    for attempt in range(1, 11):
        claim = claimed(queue)
        assert claim.attempt == attempt and contract.boxes() == {"poison": "cur"}
        claim.release(ended="exit-1")
    assert queue.claim() is None and contract.boxes() == {"poison": "rejected"}


@pytest.mark.parametrize("end", ["ack", "release", "reject", "ack_many", "block", "exception"])
def test_a_claim_that_was_taken_away_is_lost(contract: Contract, queue: Queue, end: str) -> None:
    queue.put(b"1")
    claim = claimed(queue)
    contract.take_away(claim)

    def block() -> None:
        with claim:
            pass

    def exception() -> None:
        with claim:
            raise KeyError("mine")

    ends: dict[str, Callable[[], object]] = {
        "ack": claim.ack, "release": claim.release, "reject": lambda: claim.reject("no"),
        "ack_many": lambda: queue.ack_many([claim]), "block": block, "exception": exception,
    }  # fmt: skip
    with pytest.raises((ClaimLost, KeyError) if end == "exception" else ClaimLost) as caught:
        ends[end]()
    assert "\n" not in str(caught.value) and contract.boxes() == {"1": "new"}
    with claimed(queue) as again:
        assert again.id == claim.id or again.data == b"1"


def test_an_old_claim_does_not_end_a_new_one(contract: Contract, queue: Queue) -> None:
    queue.put(b"1")
    old = claimed(queue)
    contract.take_away(old)
    new = claimed(queue)
    for end in (old.ack, old.release, lambda: old.reject("no")):
        with pytest.raises(ClaimLost):
            end()
    assert contract.boxes() == {"1": "cur"}
    new.ack()
    assert contract.boxes() == {}


def test_of_many_acks_the_lost_ones_are_named_and_the_others_done(contract: Contract, queue: Queue) -> None:
    queue.put_many([b"%d" % number for number in range(5)])
    claims = list(queue.claims())
    contract.take_away(claims[2])
    again = claimed(queue)
    with pytest.raises(ClaimLost) as lost:
        queue.ack_many([*claims, again])
    assert len(lost.value.names) == 1 and claims[2].id in lost.value.names[0] and contract.boxes() == {}


def test_a_dropped_claim_goes_back_with_a_warning(queue: Queue) -> None:
    queue.put(b"1")
    with pytest.warns(ResourceWarning, match="dropped without ack"):
        assert queue.claim() is not None
        gc.collect()
    with claimed(queue) as again:
        assert again.attempt == 2


def test_a_claim_is_not_pickled_and_says_what_it_is(queue: Queue) -> None:
    id = queue.put(b"1")
    with claimed(queue) as claim:
        assert id in repr(claim)
        with pytest.raises(TypeError, match="pass its id or its data on"):
            pickle.dumps(claim)
    assert "ended" in repr(claim)


@pytest.mark.parametrize(("time", "error"), [(float("nan"), UsageError), ("soon", TypeError), (True, TypeError)])
def test_nothing_waits_for_a_time_that_is_no_number(queue: Queue, time: Any, error: type[Exception]) -> None:
    queue.put(b"1")
    for wait in (queue.claim, lambda time: next(queue.claims(time))):
        with pytest.raises(error, match="timeout takes seconds or None, not"):
            wait(time)
    with claimed(queue) as claim, pytest.raises(error, match="delay takes seconds, not"):
        claim.release(time)
    assert queue.depth() == 0


# Consumers that die, and others


def test_the_claims_of_the_dead_go_back_and_those_of_the_living_do_not(contract: Contract, queue: Queue) -> None:
    dead, mine, _ = queue.put_many([b"dead", b"mine", b"alive"])
    contract.consumer_dies()
    held = claimed(queue)
    contract.world.claim_living()
    contract.world.claim_foreign("foreign")
    assert held.id == mine and queue.recover() == [dead] and queue.recover() == []
    assert contract.boxes() == {"dead": "new", "mine": "cur", "alive": "cur", "foreign": "cur"}
    with claimed(queue) as again:
        assert (again.id, again.attempt) == (dead, 2)
    held.ack()


def test_a_message_that_kills_its_consumers_is_rejected(contract: Contract, queue: Queue) -> None:
    id = queue.put(b"poison")
    for _ in range(9):
        contract.consumer_dies()
        assert queue.recover() == [id]
    contract.consumer_dies()
    assert queue.recover() == [] and contract.boxes() == {"poison": "rejected"} and queue.depth() == 0


def test_whatever_a_dying_consumer_did_with_other_messages_holds(contract: Contract, queue: Queue) -> None:
    queue.put_many([b"acked", b"released", b"rejected", b"held"])

    def work(other: Queue) -> Any:
        acked, released, rejected, held = (claimed(other) for _ in range(4))
        acked.ack()
        rejected.reject("no")
        released.release(600)
        return held

    contract.consumer_dies(work)
    assert len(queue.recover()) == 1
    assert contract.boxes() == {"released": "new", "rejected": "rejected", "held": "new"}


def test_processes_and_threads_that_race_never_get_one_message_twice(contract: Contract, queue: Queue) -> None:
    code = (
        "import sys; from spooltop import open_queue\n"
        "with open_queue(sys.argv[1], durable=False) as q:\n"
        "    print('open', flush=True); sys.stdin.readline()\n"
        "    for c in q.claims():\n        with c: print(c.id)"
    )
    ids = queue.put_many([b""] * 300)
    got: list[str] = []

    def work() -> None:
        for claim in queue.claims():
            with claim:
                got.append(claim.id)

    workers = [started(code, contract) for _ in range(2)]
    threads = [threading.Thread(target=work) for _ in range(3)]
    go(workers)
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    got += [id for worker in workers for id in worker.communicate()[0].split()]
    assert sorted(got) == sorted(ids) and contract.boxes() == {}


def test_no_step_of_a_claim_works_in_a_child_and_its_block_does_nothing(contract: Contract, queue: Queue) -> None:
    queue.put(b"1")

    def work() -> None:
        steps = (claim.ack, claim.release, lambda: claim.reject("no"), lambda: claim.data, lambda: queue.ack_many([claim]))
        for step in steps:
            with pytest.raises(ClaimLost, match=f"claimed by pid {os.getppid()}; this is its child"):
                step()
        with claim:
            pass
        claim.__exit__(KeyError, KeyError("x"), None)
        claim.__del__()  # type: ignore[attr-defined]  # what the child's copy does when it goes: nothing

    with claimed(queue) as claim:
        assert in_child(work) == 0
        assert contract.boxes() == {"1": "cur"}
    assert contract.boxes() == {}


def test_a_child_is_a_consumer_of_its_own(contract: Contract, queue: Queue) -> None:
    queue.put_many([b"1", b"2"])
    claim = claimed(queue)

    def work() -> None:
        with pytest.raises(ClaimLost):
            next(iteration)
        assert claimed(queue).ack() is None

    iteration = queue.claims()
    with next(iteration):
        assert in_child(lambda: None) == 0
    queue.put(b"3")
    assert in_child(work) == 0
    assert contract.boxes() == {"1": "cur"}
    claim.ack()


def test_the_death_of_the_parent_ends_its_claims_though_a_child_lives(contract: Contract, queue: Queue) -> None:
    id = queue.put(b"1")
    reading, writing = os.pipe()

    def work(other: Queue) -> Any:
        claim = claimed(other)
        if os.fork() == 0:
            os.close(writing)
            os.read(reading, 1)  # lives until the test ends
            os._exit(0)
        return claim

    contract.consumer_dies(work)
    while not (back := queue.recover()):  # the child closes its copy as soon as it runs
        os.sched_yield()
    os.close(writing)
    os.close(reading)
    assert back == [id]


def test_a_child_cannot_ack_when_its_parent_is_dead(contract: Contract, queue: Queue) -> None:
    queue.put(b"1")
    (answer, writing), (dead, killed) = os.pipe(), os.pipe()

    def work(other: Queue) -> Any:
        claim = claimed(other)
        if os.fork() == 0:
            os.close(killed)
            os.read(dead, 1)  # until every copy is closed: the parent's with its life
            try:
                claim.ack()
            except ClaimLost:
                os.write(writing, b"lost")
            os._exit(0)
        return claim

    contract.consumer_dies(work)
    os.close(killed)
    os.close(writing)
    with open(answer, "rb") as file:
        assert file.read() == b"lost"
    os.close(dead)
    assert contract.boxes() == {"1": "cur"}


# Waiting, pausing, the end


def test_a_waiting_claim_wakes_for_a_message(contract: Contract, queue: Queue) -> None:
    claims: list[Any] = []
    waiting = threading.Thread(target=lambda: claims.append(queue.claim(timeout=None)))
    waiting.start()
    id = contract.open().put(b"1")
    waiting.join(60)
    assert claims[0].id == id
    claims[0].ack()
    assert queue.claim(timeout=0.01) is None


def test_wake_ends_a_wait_that_has_no_end(queue: Queue) -> None:
    ended: list[object] = []
    waiting = threading.Thread(target=lambda: ended.append(list(queue.claims(timeout=None))))
    waiting.start()
    while waiting.is_alive():
        queue.wake()  # type: ignore[attr-defined]
        waiting.join(0.05)
    assert ended == [[]]


def test_arrivals_wake_whoever_waits_for_several_things(contract: Contract, queue: Queue) -> None:
    with closing(queue.arrivals()) as arrivals:
        contract.open().put(b"1")
        while (claim := queue.claim()) is None:
            arrivals.wait(10)
        claim.ack()
        arrivals.wake()
        arrivals.wait(60)


def test_a_paused_queue_gives_no_claim_and_everything_else_goes_on(contract: Contract, queue: Queue) -> None:
    queue.put(b"1")
    held = claimed(queue)
    contract.world.do(Action.PAUSE, reason="deploy")
    other = contract.open()
    id = other.put(b"2")
    assert other.claim() is None and other.claim(timeout=0.01) is None and (other.depth(), other.peek()) == (1, id)
    assert other.paused is not None and other.paused.reason == "deploy"
    held.ack()
    contract.world.do(Action.RESUME)
    assert other.paused is None
    with other.claim(timeout=30) or pytest.fail("nothing came") as claim:
        assert claim.id == id


def test_close_hands_back_and_every_other_call_says_that_it_is_closed(contract: Contract) -> None:
    queue = contract.open()
    queue.put(b"1")
    claim = claimed(queue)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        queue.close()
        queue.close()
    assert contract.open().recover() == [] and contract.boxes() == {"1": "new"}
    calls: tuple[Callable[[], object], ...] = (
        queue.claim, queue.depth, queue.peek, queue.recover, queue.arrivals, lambda: queue.put(b""),
        lambda: queue.put_many([b""]), lambda: queue.put(b"", key="k"), lambda: next(queue.claims()),
        lambda: queue.ack_many([]), lambda: queue.paused,
    )  # fmt: skip
    for call in calls:
        with pytest.raises(Closed) as closed:
            call()
        assert "\n" not in str(closed.value)
    for step in (claim.ack, claim.release):
        with pytest.raises(SpooltopError):
            step()


def test_no_warning_escapes_and_a_queue_is_opened_by_its_name(contract: Contract, queue: Queue) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with open_queue(queue.name, durable=False) as other:
            other.put(b"1")
            for claim in other.claims():
                with claim:
                    assert claim.data == b"1"
            assert queue.identity.is_same(other.identity)
    assert repr(queue).count(queue.name) == 1


def test_what_is_no_queue_says_so_in_one_line(contract: Contract) -> None:
    stem, slash, _ = contract.world.target.rpartition("/")
    for wrong in (f"{stem}{slash}nowhere", ""):
        with pytest.raises((NotASpool, UsageError, Refused)) as error:
            open_queue(wrong)
        assert "\n" not in str(error.value)
    assert not Path("nowhere").exists()
