"""A closed object says that it is closed, and none of its descriptor numbers is used again, whatever else got them meanwhile."""

from __future__ import annotations

import asyncio
import gc
import threading
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from spooltop.engine import Claim, ClaimLost, Closed, Spool
from spooltop.model.queue import InterruptedMove, QueueIdentity
from tests.engine.helpers import Interposed, claimed, meanwhile, places
from tests.scratch import descriptors


async def first(spool: Spool) -> object:
    return await anext(aiter(spool.aclaims()))


OF_SPOOL: list[Callable[[Spool], object]] = [
    lambda spool: asyncio.run(first(spool)), lambda spool: spool.ack_many([]), lambda spool: spool.arrivals(),
    lambda spool: spool.claim(), lambda spool: list(spool.claims()), lambda spool: spool.consume(print),
    lambda spool: spool.depth(), lambda spool: spool.empty(), lambda spool: spool.forget_key("key"),
    lambda spool: spool.forget_mover("move:x"), lambda spool: spool.get(), lambda spool: spool.get_nowait(),
    lambda spool: spool.identity, lambda spool: spool.inherited_fds(), len, lambda spool: spool.paused,
    lambda spool: spool.locks_used(), lambda spool: spool.mover(QueueIdentity("target")), lambda spool: spool.peek(),
    lambda spool: spool.presence_fd(), lambda spool: spool.put(b"secret"), lambda spool: spool.put(b"secret", id="a"),
    lambda spool: spool.put(b"secret", key="b"), lambda spool: spool.put_many([b"secret"] * 2), lambda spool: spool.qsize(),
    lambda spool: spool.recover(), lambda spool: spool.suppressed(), lambda spool: spool.was_put("key"),
]  # fmt: skip
OF_CLAIM: list[Callable[[Claim], object]] = [
    lambda claim: claim.ack(), lambda claim: claim.data, lambda claim: claim.open(), lambda claim: claim.reject("?"),
    lambda claim: claim.release(), lambda claim: claim.release(data=b"new"),
]  # fmt: skip


def test_a_closed_spool_says_so_and_touches_no_other(tmp_path: Path) -> None:
    mail = Spool.create(tmp_path / "mail")
    mail.close()
    with Spool.create(tmp_path / "bills") as bills:  # gets the numbers that mail had
        bills.put(b"bill")
        before = places(tmp_path / "bills")
        for method in OF_SPOOL:
            with pytest.raises(Closed, match="mail: this Spool is closed; open it again"):
                method(mail)
        mail.close()
        mail.wake()
        assert places(tmp_path / "bills") == before and places(tmp_path / "mail") == {}


@pytest.mark.filterwarnings("ignore:claim on:ResourceWarning")
def test_a_claim_of_a_closed_spool_says_so(tmp_path: Path) -> None:
    with Spool.create(tmp_path / "mail") as mail:
        id = mail.put(b"hello")
        claim = claimed(mail)
    with Spool.create(tmp_path / "bills"):
        for method in OF_CLAIM:
            with pytest.raises(Closed, match=f"the Spool was closed while the claim on '{id}' was held"):
                method(claim)
    with Spool(tmp_path / "mail") as again:
        assert again.peek() == id


@pytest.mark.filterwarnings("ignore:claim on:ResourceWarning")
def test_a_block_whose_end_could_not_be_acked_says_so(tmp_path: Path) -> None:
    spool = Spool.create(tmp_path)
    spool.put(b"")
    with pytest.raises(Closed, match="was closed while the claim"), claimed(spool):
        spool.close()


# Closed by one thread in the middle of a call of another


class ClosedMeanwhile:
    """Before ``operation`` closes ``mail`` in another thread and opens ``bills``, which gets every number that became free."""

    def __init__(self, path: Path, operation: str) -> None:
        self.path = path
        self.bills: Spool | None = None
        self.files = meanwhile(operation, self.close)
        self.files.armed = False
        path.mkdir(exist_ok=True)
        self.mail = Spool.create(path / "mail", files=self.files)

    def close(self) -> None:
        def work() -> None:
            self.mail.close()
            self.bills = Spool.create(self.path / "bills")
            self.bills.put(b"bill")

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()

    def during(self, call: Callable[[], Any]) -> Any:
        self.files.armed = True
        try:
            return call()
        finally:
            self.files.armed = False
            assert self.bills is not None and self.bills.depth() == 1
            assert len(places(self.path / "bills")) == 1
            self.bills.close()


@pytest.mark.parametrize(
    ("put", "operations"),
    [
        (lambda spool: [spool.put(b"letter")], ["create", "write", "rename_noreplace", "sync_dir"]),
        (lambda spool: [spool.put(b"letter", id="a")], ["create", "rename_noreplace", "sync_dir"]),
        (lambda spool: [spool.put(b"letter", key="b")], ["create", "rename_noreplace", "sync_dir"]),
        (lambda spool: spool.put_many([b"letter"] * 3), ["rename_noreplace"]),
    ],
    ids=["put", "id", "key", "group"],
)
def test_a_put_under_way_ends_in_its_own_spool(tmp_path: Path, put: Callable[[Spool], list[str]], operations: list[str]) -> None:
    for operation in operations:
        closing = ClosedMeanwhile(tmp_path / operation, operation)
        ids = closing.during(lambda closing=closing: put(closing.mail))
        with Spool(tmp_path / operation / "mail") as again:
            claims = list(again.claims())
            assert [(claim.id, claim.data) for claim in claims] == [(id, b"letter") for id in ids]
            again.ack_many(claims)


@pytest.mark.filterwarnings("ignore:claim on:ResourceWarning")
@pytest.mark.parametrize("operation", ["open_read", "content"])
def test_a_look_into_a_claim_under_way_gives_what_was_there_or_says_it_is_gone(tmp_path: Path, operation: str) -> None:
    closing = ClosedMeanwhile(tmp_path, operation)
    closing.mail.put(b"letter")
    claim = claimed(closing.mail)
    with nullcontext() if operation == "content" else pytest.raises(ClaimLost):  # closing gave it back before it was opened
        assert closing.during(lambda: claim.data) == b"letter"


ENDS: dict[str, Callable[[Spool, Claim], object]] = {
    "ack": lambda _, claim: claim.ack(), "ack_many": lambda spool, claim: spool.ack_many([claim]),
    "release": lambda _, claim: claim.release(), "release with data": lambda _, claim: claim.release(data=b"new"),
    "reject": lambda _, claim: claim.reject("?"),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:claim on:ResourceWarning")
@pytest.mark.parametrize(
    ("end", "operation", "error"),
    [
        *((end, "unlink", ClaimLost) for end in ("ack", "ack_many")),  # closing comes first, and gives it back
        *((end, "stat", ClaimLost) for end in ("release", "reject")),
        ("reject", "rename_noreplace", ClaimLost),
        ("release", "rename_noreplace", None),  # by closing, to the same name
        *((end, "sync_dir", None) for end in ENDS if end != "release with data"),  # it had been done
        *(("release with data", operation, ClaimLost) for operation in ("stat", "create", "write", "swap")),
        ("release with data", "sync_dir", Closed),  # the new content went back
    ],
)
def test_an_end_under_way_is_done_or_lost_and_never_elsewhere(
    tmp_path: Path, end: str, operation: str, error: type[Exception] | None
) -> None:
    closing = ClosedMeanwhile(tmp_path, operation)
    closing.mail.put(b"first")
    with claimed(closing.mail) as claim:
        claim.reject("on purpose")  # makes its directory
    closing.mail.put(b"letter")
    held = claimed(closing.mail)
    with pytest.raises(error) if error else nullcontext():
        closing.during(lambda: ENDS[end](closing.mail, held))
    waits = error is not None or end == "release"
    assert len(places(tmp_path / "mail")) == 1 + (waits or end == "reject")
    contents = []
    with Spool(tmp_path / "mail") as again:
        for held in again.claims():
            with held:
                contents.append(held.data)
    assert contents == [b"new" if error is Closed else b"letter"] * waits


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


def test_closing_ends_the_waits_of_all_threads(tmp_path: Path) -> None:
    spool = Spool.create(tmp_path, False)
    ended: list[BaseException] = []

    def wait() -> None:
        try:
            spool.claim(timeout=None)
        except Closed as error:
            ended.append(error)

    threads = [threading.Thread(target=wait) for _ in range(4)]
    for thread in threads:
        thread.start()
    spool.close()
    for thread in threads:
        thread.join()
    assert len(ended) == 4


def test_a_mover_forgets_its_claims_without_a_warning(spool: Spool) -> None:
    """They are the next move's."""
    spool.put(b"one")
    mover = spool.mover(QueueIdentity("target"))
    claim = mover.claim()
    assert claim is not None
    mover.close()
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        del claim
        gc.collect()
    assert warned == []


def test_the_end_of_a_move_removes_nothing_in_the_working_directory(
    spool: Spool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "7f3a").touch()
    monkeypatch.chdir(tmp_path)
    spool.mover(QueueIdentity("target")).end(InterruptedMove("move:7f3a", QueueIdentity("target"), ()))
    assert (tmp_path / "7f3a").exists()
