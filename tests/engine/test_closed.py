"""A closed object says that it is closed, and none of its descriptor numbers is used again, whatever else got them meanwhile."""

from __future__ import annotations

import asyncio
import gc
import inspect
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from spooltop.engine import ClaimLost, Closed, Spool
from spooltop.engine.consuming.claim import Claim
from spooltop.model.moves import QueueIdentity
from tests.engine.helpers import Interposed, places


def descriptors() -> set[str]:
    gc.collect()
    return set(os.listdir("/proc/self/fd"))


def run(thread: Callable[[], object]) -> None:
    """Runs it in another thread, to its end."""
    one = threading.Thread(target=thread)
    one.start()
    one.join()


async def first(spool: Spool) -> object:
    async for claim in spool.aclaims():
        return claim
    return None


def public(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_") and not inspect.ismethod(inspect.getattr_static(kind, name))}


OF_SPOOL: dict[str, Callable[[Spool], object]] = {
    "aclaims": lambda spool: asyncio.run(first(spool)),
    "ack_many": lambda spool: spool.ack_many([]),
    "arrivals": lambda spool: spool.arrivals(),
    "claim": lambda spool: spool.claim(),
    "claims": lambda spool: list(spool.claims()),
    "consume": lambda spool: spool.consume(print),
    "depth": lambda spool: spool.depth(),
    "empty": lambda spool: spool.empty(),
    "forget_key": lambda spool: spool.forget_key("key"),
    "forget_mover": lambda spool: spool.forget_mover("move:x"),
    "get": lambda spool: spool.get(),
    "get_nowait": lambda spool: spool.get_nowait(),
    "identity": lambda spool: spool.identity,
    "inherited_fds": lambda spool: spool.inherited_fds(),
    "len": len,
    "paused": lambda spool: spool.paused,
    "locks_used": lambda spool: spool.locks_used(),
    "mover": lambda spool: spool.mover(QueueIdentity("target")),
    "peek": lambda spool: spool.peek(),
    "presence_fd": lambda spool: spool.presence_fd(),
    "put": lambda spool: spool.put(b"secret"),
    "put_many": lambda spool: spool.put_many([b"secret"] * 2),
    "qsize": lambda spool: spool.qsize(),
    "recover": lambda spool: spool.recover(),
    "suppressed": lambda spool: spool.suppressed(),
    "was_put": lambda spool: spool.was_put("key"),
}
OF_CLAIM: dict[str, Callable[[Claim], object]] = {
    "ack": lambda claim: claim.ack(),
    "data": lambda claim: claim.data,
    "open": lambda claim: claim.open(),
    "reject": lambda claim: claim.reject("?"),
    "release": lambda claim: claim.release(),
    "release with data": lambda claim: claim.release(data=b"new"),
}


def test_every_method_of_a_spool_is_tried_below() -> None:
    said_otherwise = {"claims_of_others", "close", "create", "guarantees", "name", "wake"}
    assert public(Spool) == OF_SPOOL.keys() - {"len"} | said_otherwise
    of_its_name = {
        "attempt", "base", "done", "end", "ended", "failed", "id", "move_on", "name", "of", "parsed", "source", "token"
    }  # fmt: skip
    assert public(Claim) == OF_CLAIM.keys() - {"release with data"} | of_its_name


@pytest.mark.parametrize("method", OF_SPOOL.values(), ids=OF_SPOOL.keys())
def test_a_closed_spool_says_so_and_touches_no_other(tmp_path: Path, method: Callable[[Spool], object]) -> None:
    mail = Spool.create(tmp_path / "mail")
    mail.close()
    with Spool.create(tmp_path / "bills") as bills:  # gets the numbers that mail had
        bills.put(b"bill")
        before = places(tmp_path / "bills")
        with pytest.raises(Closed, match="mail: this Spool is closed; open it again"):
            method(mail)
        assert places(tmp_path / "bills") == before and places(tmp_path / "mail") == {}
        mail.close()
        mail.wake()


def test_a_closed_spool_refuses_a_chosen_id_and_a_key(tmp_path: Path) -> None:
    with Spool.create(tmp_path / "mail") as mail:
        pass
    with Spool.create(tmp_path / "bills"):
        for chosen in ({"id": "a"}, {"key": "b"}):
            with pytest.raises(Closed):
                mail.put(b"secret", **chosen)  # type: ignore[arg-type]
        assert places(tmp_path / "bills") == {}


@pytest.mark.filterwarnings("ignore:claim on:ResourceWarning")
@pytest.mark.parametrize("method", OF_CLAIM.values(), ids=OF_CLAIM.keys())
def test_a_claim_of_a_closed_spool_says_so(tmp_path: Path, method: Callable[[Claim], object]) -> None:
    with Spool.create(tmp_path / "mail") as mail:
        id = mail.put(b"hello")
        claim = mail.claim()
        assert claim is not None
    with Spool.create(tmp_path / "bills"):
        with pytest.raises(Closed, match=f"the Spool was closed while the claim on '{id}' was held"):
            method(claim)
    with Spool(tmp_path / "mail") as again:
        assert again.peek() == id


@pytest.mark.filterwarnings("ignore:claim on:ResourceWarning")
def test_a_block_whose_end_could_not_be_acked_says_so(tmp_path: Path) -> None:
    spool = Spool.create(tmp_path)
    spool.put(b"")
    with pytest.raises(Closed, match="was closed while the claim"), spool.claim() or pytest.fail("nothing to claim"):
        spool.close()
    with Spool(tmp_path) as again:
        again.put(b"")
        for end in ("ack", "release", "reject"):  # one that was ended in its block raises nothing
            with again.claim() or pytest.fail("nothing to claim") as claim:
                getattr(claim, end)(*(["?"] if end == "reject" else []))


def test_a_claim_that_had_ended_before_still_says_that(tmp_path: Path) -> None:
    with Spool.create(tmp_path) as spool:
        spool.put(b"")
        with spool.claim() or pytest.fail("nothing to claim") as claim:
            pass
    with pytest.raises(ClaimLost, match="has ended already"):
        claim.ack()


# Closed by one thread in the middle of a call of another


class ListProgress:
    """Before ``operation`` closes ``mail`` in another thread and opens ``bills``, which gets every number that became free."""

    def __init__(self, path: Path, operation: str) -> None:
        self.path, self.operation = path, operation
        self.bills: Spool | None = None
        self.files = Interposed(self.before)
        self.files.armed = False
        self.mail = Spool.create(path / "mail", files=self.files)

    def before(self, _number: int, name: str) -> None:
        if name == self.operation and self.bills is None:
            self.files.armed = False

            def close() -> None:
                self.mail.close()
                self.bills = Spool.create(self.path / "bills")
                self.bills.put(b"bill")

            run(close)

    def during(self, call: Callable[[], Any]) -> Any:
        self.files.armed = True
        try:
            return call()
        finally:
            self.files.armed = False
            assert self.bills is not None and self.bills.depth() == 1
            assert len(places(self.path / "bills")) == 1
            self.bills.close()


@pytest.mark.parametrize("operation", ["create", "write", "rename_noreplace", "sync_dir"])
def test_a_put_under_way_ends_in_its_own_spool(tmp_path: Path, operation: str) -> None:
    progress = ListProgress(tmp_path, operation)
    id = progress.during(lambda: progress.mail.put(b"letter"))
    with Spool(tmp_path / "mail") as again, again.claim() or pytest.fail("nothing to claim") as claim:
        assert (claim.id, claim.data) == (id, b"letter")


@pytest.mark.parametrize("chosen", [{"id": "a"}, {"key": "b"}])
@pytest.mark.parametrize("operation", ["create", "rename_noreplace", "sync_dir"])
def test_a_put_of_a_chosen_id_or_key_under_way_does_too(tmp_path: Path, operation: str, chosen: dict[str, Any]) -> None:
    progress = ListProgress(tmp_path, operation)
    id = progress.during(lambda: progress.mail.put(b"letter", **chosen))
    with Spool(tmp_path / "mail") as again:
        assert again.peek() == id


def test_a_group_under_way_does_too(tmp_path: Path) -> None:
    progress = ListProgress(tmp_path, "rename_noreplace")
    ids = progress.during(lambda: progress.mail.put_many([b"1", b"2", b"3"]))
    with Spool(tmp_path / "mail") as again:
        assert [claim.id for claim in again.claims() if claim.ack() is None] == ids


@pytest.mark.filterwarnings("ignore:claim on:ResourceWarning")
@pytest.mark.parametrize("operation", ["open_read", "content"])
def test_a_look_into_a_claim_under_way_gives_what_was_there_or_says_it_is_gone(tmp_path: Path, operation: str) -> None:
    progress = ListProgress(tmp_path, operation)
    progress.mail.put(b"letter")
    claim = progress.mail.claim()
    assert claim is not None
    if operation == "content":
        assert progress.during(lambda: claim.data) == b"letter"
    else:  # closing gave it back before it was opened
        with pytest.raises(ClaimLost):
            progress.during(lambda: claim.data)


ENDS: dict[str, Callable[[Spool, Claim], object]] = {
    "ack": lambda _, claim: claim.ack(),
    "ack_many": lambda spool, claim: spool.ack_many([claim]),
    "release": lambda _, claim: claim.release(),
    "release with data": lambda _, claim: claim.release(data=b"new"),
    "reject": lambda _, claim: claim.reject("?"),
}


@pytest.mark.filterwarnings("ignore:claim on:ResourceWarning")
@pytest.mark.parametrize(
    ("end", "operation", "lost"),
    [
        *((end, "unlink", True) for end in ("ack", "ack_many")),  # closing comes first, and gives it back
        *((end, "stat", True) for end in ("release", "reject")),
        ("reject", "rename_noreplace", True),
        ("release", "rename_noreplace", False),  # by closing, to the same name
        *((end, "sync_dir", False) for end in ENDS if end != "release with data"),  # it had been done
        *(("release with data", operation, True) for operation in ("stat", "create", "write", "swap")),
    ],
)
def test_an_end_under_way_is_done_or_lost_and_never_elsewhere(tmp_path: Path, end: str, operation: str, lost: bool) -> None:
    progress = ListProgress(tmp_path, operation)
    progress.mail.put(b"first")
    with progress.mail.claim() or pytest.fail("nothing to claim") as claim:
        claim.reject("on purpose")  # makes its directory
    progress.mail.put(b"letter")
    held = progress.mail.claim()
    assert held is not None
    if lost:
        with pytest.raises(ClaimLost):
            progress.during(lambda: ENDS[end](progress.mail, held))
    else:
        progress.during(lambda: ENDS[end](progress.mail, held))
    with Spool(tmp_path / "mail") as again:
        assert again.depth() == (1 if lost or end == "release" else 0)
        assert len(places(tmp_path / "mail")) == 1 + (lost or end in ("release", "reject"))


@pytest.mark.filterwarnings("ignore:claim on:ResourceWarning")
def test_a_release_that_was_closed_after_it_changed_the_content_says_so_and_the_new_content_went_back(tmp_path: Path) -> None:
    progress = ListProgress(tmp_path, "sync_dir")
    progress.mail.put(b"old")
    held = progress.mail.claim()
    assert held is not None
    with pytest.raises(Closed, match="was closed while the claim"):
        progress.during(lambda: held.release(data=b"new"))
    with Spool(tmp_path / "mail") as again, again.claim() or pytest.fail("nothing to claim") as claim:
        assert (claim.data, claim.attempt) == (b"new", 2)
    assert places(tmp_path / "mail") == {}


@pytest.mark.parametrize("operation", ["list", "scan"])
def test_a_listing_under_way_is_of_its_own_spool(tmp_path: Path, operation: str) -> None:
    progress = ListProgress(tmp_path, operation)
    progress.mail.put_many([b"1", b"2"])
    if operation == "list":
        assert progress.during(progress.mail.recover) == []
    else:
        assert progress.during(progress.mail.depth) == 2


@pytest.mark.parametrize("at", [1, 2])
def test_a_signal_handler_that_closes_in_the_middle_of_a_claim_leaves_no_claim_without_a_holder(tmp_path: Path, at: int) -> None:
    renames: list[int] = []

    def before(_number: int, name: str) -> None:
        if name == "rename":
            renames.append(_number)
            if len(renames) == at:  # first the presence file, then the message
                spool.close()

    spool = Spool.create(tmp_path, files=Interposed(before))
    id = spool.put(b"letter")
    with pytest.raises(Closed):
        spool.claim()
    with Spool(tmp_path) as again:
        assert again.peek() == id
    assert list((tmp_path / "cur").iterdir()) == list((tmp_path / ".spooltop/consumers").iterdir()) == []


def test_closing_closes_every_descriptor_also_where_ended_claims_are_kept(tmp_path: Path) -> None:
    Spool.create(tmp_path).close()
    before = descriptors()
    spool = Spool(tmp_path)
    spool.put_many([b""] * 3)
    kept = list(spool.claims())
    spool.ack_many(kept)
    assert spool.claim(timeout=0.001) is None and len(descriptors()) > len(before)
    spool.close()
    assert descriptors() == before and len(kept) == 3


# Threads that wait


@pytest.fixture
def threads() -> Iterator[list[threading.Thread]]:
    started: list[threading.Thread] = []
    yield started
    assert not any(thread.is_alive() for thread in started)


def test_several_threads_wait_on_one_spool(tmp_path: Path, threads: list[threading.Thread]) -> None:
    got: list[bytes] = []
    with Spool.create(tmp_path, False) as spool:

        def consume() -> None:
            for claim in spool.claims(timeout=30):
                with claim:
                    got.append(claim.data)

        threads += [threading.Thread(target=consume) for _ in range(4)]
        for thread in threads:
            thread.start()
        for number in range(40):
            spool.put(b"%d" % number)
        for thread in threads:
            while thread.is_alive():
                thread.join(0.01)
                if len(got) >= 40:
                    spool.wake()
    assert sorted(map(int, got)) == list(range(40))


def test_closing_ends_the_waits_of_all_threads(tmp_path: Path, threads: list[threading.Thread]) -> None:
    spool = Spool.create(tmp_path, False)
    ended: list[BaseException] = []
    ready = threading.Barrier(5)

    def wait() -> None:
        ready.wait()
        try:
            spool.claim(timeout=None)
        except Closed as error:
            ended.append(error)

    threads += [threading.Thread(target=wait) for _ in range(4)]
    for thread in threads:
        thread.start()
    ready.wait()
    spool.close()
    for thread in threads:
        thread.join()
    assert len(ended) == 4


def test_a_message_that_came_between_the_look_and_the_wait_is_not_missed(tmp_path: Path) -> None:
    """Another thread that polls is told of it, and takes the news from the descriptor: the wait must end all the same."""
    from spooltop.engine.consuming.waiting import ArrivalWatch

    (tmp_path / "new").mkdir()
    fd = os.open(tmp_path / "new", os.O_RDONLY)
    watch = ArrivalWatch(fd)
    seen = watch.events
    (tmp_path / "new/message").touch()
    run(lambda: watch.wait(30))  # the other thread
    watch.wait(3600, seen)  # would poll for as long as it may, else
    assert watch.events == seen + 1
    watch.close()
    os.close(fd)
