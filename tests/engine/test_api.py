"""The engine as somebody uses it who knows queue.Queue: what it takes, what it gives, what it says to the wrong things."""

from __future__ import annotations

import asyncio
import datetime
import doctest
import io
import logging
import os
import pickle
import queue
import re
import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext, suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest

from spooltop import engine
from spooltop.engine import Claim, CursorFile, MessageId, Spool, tickets, write_atomic, write_atomic_text
from spooltop.errors import ClaimLost, SpooltopError, UsageError
from tests.engine.helpers import claimed, failing, in_child, places

# Wrong values and types

NAN, INFINITE = float("nan"), float("inf")
TIMEOUT = "timeout takes seconds or None, not "
NO_DATA = "data: a message is bytes or a binary file, not int"
WRONG_VALUES: list[tuple[Callable[[Any], object], str]] = [
    *((lambda spool, time=time: spool.put(b"", not_before=time), "takes epoch seconds, not") for time in (NAN, INFINITE)),
    *((lambda spool, name=name: spool.put(b"", **{name: "\ud83d"}), "surrogate") for name in ("key", "id", "source")),
    *((lambda spool, call=call: call(spool, NAN), f"{TIMEOUT}NaN") for call in (
        lambda spool, time: spool.get(timeout=time), lambda spool, time: spool.consume(print, time), Spool.aclaims)),
    *((lambda spool, now=now: Spool(spool.path, clock=lambda: now), f"clock gives epoch seconds, not {now}; a name carries")
      for now in (-0.1, NAN, INFINITE, 1e12)),
    (lambda spool: Spool(spool.path, max_attempts=0), "max_attempts takes a number from 1 up, not 0"),
    (lambda spool: Spool(spool.path, hosts="this"), "'this' is neither any nor this-machine"),
    *((lambda spool, opens=opens: opens(""), "an empty path; name the file or the directory")  # not the working directory
      for opens in (Spool, Spool.create, CursorFile)),
    *((lambda spool, wrong=wrong: spool.put(b"", **wrong), what) for wrong, what in (
        ({"id": "x" * 130}, "the id takes 134 bytes in the name, 124 are allowed"), ({"id": ""}, "an id is not empty"),
        ({"source": "s" * 41}, "a source takes 1 to 40 bytes, this one 41"),
        ({"source": "é" * 21}, "a source takes 1 to 40 bytes, this one 42"),
        ({"source": "é" * 20, "id": "x" * 30}, "choose a shorter id or source .the id 30, the source 120; a byte outside"),
        ({"source": ""}, "a source takes 1 to 40 bytes, this one 0"),
        ({"not_before": -1.0}, "no time from 1970 to 5000: -1 s since the epoch"),
        ({"not_before": 1e12}, "no time from 1970 to 5000"))),
]  # fmt: skip
WRONG_TYPES: list[tuple[Callable[[Any], object], str]] = [
    (lambda spool: spool.put("text"), r"data: a message is bytes .* not str: encode it, as in data.encode\(\)"),
    (lambda spool: spool.put(5), NO_DATA), (lambda spool: spool.put(5, key="known"), NO_DATA),
    *((lambda spool, name=name, value=value: spool.put(b"", **{name: value}), f"{name} takes {what}") for name, value, what in (
        ("source", 5, "a str, not int: 5"), ("id", 0, "a str, not int: 0"), ("key", ("a", 1), r"a str, not tuple: \('a', 1\)"),
        ("not_before", "x", "epoch seconds, not str: 'x'"), ("not_before", True, "epoch seconds, not bool: True"),
        ("not_before", datetime.datetime(2026, 1, 1), r"epoch seconds, not datetime: give its timestamp\(\)"))),
    (lambda spool: spool.put_many([b"x"], source=5), "source takes a str, not int: 5"),
    *((lambda spool, data=data: spool.put_many(data), "messages takes an iterable .* for one message call put")
      for data in (b"ab", "ab", bytearray(b"ab"), io.BytesIO(b"ab"))),
    (lambda spool: spool.aclaims("5"), f"{TIMEOUT}str: '5'"), (lambda spool: spool.get(timeout="5"), f"{TIMEOUT}str: '5'"),
    (lambda spool: Spool(spool.path, clock=lambda: "5"), "clock gives epoch seconds, not str: '5'"),
    (lambda spool: spool.ack_many("ab"), "claims takes claims, not str: 'a'"),
    (lambda spool: Spool(spool.path, max_attempts="3"), "max_attempts takes a whole number, not str: '3'"),
    (lambda spool: Spool(spool.path, key_window="3"), "key_window takes seconds or None, not str: '3'"),
    (lambda spool: Spool(spool.path, lock_timeout=True), "lock_timeout takes seconds or None, not bool: True"),
    (lambda spool: write_atomic(spool.path + "/file", "text"), "data takes bytes, not str: call write_atomic_text"),
    (lambda spool: write_atomic(spool.path + "/file", None), "data takes bytes, not NoneType"),
    (lambda spool: write_atomic_text(spool.path + "/file", b"x"), "text takes a str, not bytes: b'x'"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("error", "call", "message"), [*((UsageError, *row) for row in WRONG_VALUES), *((TypeError, *row) for row in WRONG_TYPES)]
)
def test_a_wrong_argument_is_named_with_what_it_takes_and_nothing_is_done(
    spool: Spool, error: type[Exception], call: Callable[[Any], object], message: str
) -> None:
    spool.put(b"", key="known")
    with pytest.raises(error, match=message):
        call(spool)
    assert len(places(Path(spool.path))) == 1 and not Path(spool.path, "file").exists()


def test_a_clock_that_goes_back_before_1970_ends_puts(spool: Spool) -> None:
    now = [0.0]
    with Spool(spool.path, clock=lambda: now[0]) as other:
        now[0] = -5.0
        with pytest.raises(UsageError, match="the clock stands at -5 s; a name carries times from 1970 on"):
            other.put(b"")


WRONG_ENDS: list[tuple[Callable[[Any], object], str]] = [
    (lambda claim: claim.release("5"), "delay takes seconds, not str: '5'"),
    (lambda claim: claim.release(None, data=b"new"), "delay takes seconds, not NoneType: None"),
    (lambda claim: claim.release(data="text"), "data: a message is bytes or a binary file, not str"),
    (lambda claim: claim.reject(5), "reason takes a str, not int: 5"),
]


@pytest.mark.parametrize(("end", "message"), WRONG_ENDS)
def test_the_end_of_a_claim_does_too_and_it_is_held_on_to(spool: Spool, end: Callable[[Any], object], message: str) -> None:
    spool.put(b"first")
    with claimed(spool) as claim:
        with pytest.raises(TypeError, match=message):
            end(claim)
        assert claim.data == b"first" and not claim.ended


def test_a_claim_of_another_spool_is_not_acked_and_stays_held(tmp_path: Path, spool: Spool) -> None:
    with Spool.create(tmp_path / "other", False) as other:
        spool.put(b"mine")
        other.put(b"theirs")
        with claimed(spool) as mine, claimed(other) as theirs:
            with pytest.raises(UsageError, match="is a claim of another Spool; nothing was acked"):
                spool.ack_many([mine, theirs])
            assert (mine.data, theirs.data) == (b"mine", b"theirs")


# What put gives


def test_an_id_tells_whether_it_was_put_before(spool: Spool) -> None:
    ids = [spool.put(b"", id="order-17"), spool.put(b"", id="order-17"), spool.put(b"", key="k")]
    spool.ack_many(spool.claims())
    ids += [spool.put(b"", id="order-17"), spool.put(b"", key="k"), spool.put(b"", key="k", id="chosen")]
    assert [id.duplicate for id in ids] == [False, True, False, False, True, True]  # an id that is gone is put again
    assert ids[0] == ids[1] == ids[3] == "order-17" and ids[2] == ids[4] == ids[5]
    copied = pickle.loads(pickle.dumps(ids[5]))
    assert copied == ids[5] and copied.duplicate and type(copied) is MessageId


def test_an_id_that_was_not_chosen_is_a_plain_text_for_every_other_program(spool: Spool) -> None:
    id = spool.put(b"")
    assert type(id) is str and msgspec.json.decode(msgspec.json.encode({"id": id})) == {"id": id}
    assert b"spooltop" not in pickle.dumps(id), "whoever reads it may not have it"


# As queue.Queue


def test_it_has_what_a_queue_has(spool: Spool) -> None:
    assert spool.empty() and spool.qsize() == len(spool) == 0 and bool(spool)
    for get in (spool.get_nowait, lambda: spool.get(timeout=0.001), lambda: spool.get(False)):
        with pytest.raises(queue.Empty):
            get()
    ids = spool.put_many([b"1", b"2"])
    assert not spool.empty() and spool.qsize() == len(spool) == 2
    with spool.get() as claim:
        assert claim.id == ids[0]
    spool.get_nowait().release()
    assert spool.qsize() == 1


def test_consume_goes_on_after_a_message_that_fails(spool: Spool, caplog: pytest.LogCaptureFixture) -> None:
    spool.put_many([b"1", b"broken", b"3"])
    seen: list[bytes] = []

    def handler(claim: Claim) -> None:
        seen.append(claim.data)
        int(claim.data)

    with caplog.at_level(logging.ERROR, "spooltop.engine"):
        assert spool.consume(handler) == 2
    assert seen == [b"1", b"broken", b"3"]
    [record] = caplog.records
    assert "failed, attempt 1" in record.getMessage() and record.exc_info is not None and record.exc_info[0] is ValueError
    [name] = os.listdir(Path(spool.path, "new"))
    assert ",n=1,t=" in name and ",e=ValueError" in name


def test_consume_tells_the_caller_and_what_he_raises_ends_it(spool: Spool) -> None:
    ids = spool.put_many([b"x", b"y"])

    def stop(claim: Claim, error: Exception) -> None:
        assert claim.id == ids[0] and claim.ended and str(error).startswith("invalid literal")
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        spool.consume(lambda claim: int(claim.data), on_error=stop)
    assert spool.depth() == 2


def test_consume_lets_the_handler_end_the_claim_and_tells_of_one_that_was_taken_away(spool: Spool) -> None:
    spool.put_many([b"reject", b"lose", b"ack"])
    handlers: dict[bytes, Callable[[Claim], object]] = {
        b"reject": lambda claim: claim.reject("on purpose"), b"ack": lambda claim: None,
        b"lose": lambda claim: os.unlink(Path(spool.path, "cur", claim.name)),
    }  # fmt: skip
    lost: list[Exception] = []
    assert spool.consume(lambda claim: handlers[claim.data](claim), on_error=lambda _, error: lost.append(error)) == 2
    assert [type(error) for error in lost] == [ClaimLost] and spool.depth() == 0


def test_an_error_of_the_spool_itself_ends_consume(tmp_path: Path) -> None:
    failed: list[Exception] = []
    files = failing("sync_dir")
    files.armed = False
    with Spool.create(tmp_path, files=files) as spool:
        spool.put_many([b"", b""])
        with pytest.raises(SpooltopError, match="its sync failed"):
            spool.consume(lambda _: setattr(files, "armed", True), on_error=lambda _, error: failed.append(error))
        files.armed = False
    assert failed == []


def test_a_spool_that_was_pickled_is_opened_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Spool.create(tmp_path, False, max_attempts=1) as spool:
        id = spool.put(b"hello")
        monkeypatch.setattr("time.time", lambda: 1_795_000_000.0)  # a default is not pickled: it may have lost its name
        with pickle.loads(pickle.dumps(spool)) as again:
            assert isinstance(again, Spool) and (again.path, again.durable) == (spool.path, False)
            claim = claimed(again)
            assert (claim.id, claim.data) == (id, b"hello")
            claim.release()
            assert again.depth() == 0  # rejected at the limit that was given


def test_text_is_written_in_one_step_and_kept_where_it_cannot_be_encoded(tmp_path: Path) -> None:
    path = tmp_path / "motd"
    write_atomic_text(path, "größer\r\n")
    assert path.read_bytes() == "größer\r\n".encode()
    with pytest.raises(UnicodeEncodeError):
        write_atomic_text(path, "größer", "ascii")
    assert path.read_bytes() == "größer\r\n".encode() and os.listdir(tmp_path) == ["motd"]


# In an event loop


async def test_a_waiting_loop_gets_what_comes(spool: Spool) -> None:
    async def produce() -> None:
        for number in range(3):
            await asyncio.sleep(0)
            await asyncio.to_thread(spool.put, b"%d" % number)

    producer = asyncio.create_task(produce())
    got = []
    async for claim in spool.aclaims(timeout=60):
        async with claim:
            got.append(claim.data)
        if len(got) == 3:
            spool.wake()
    await producer
    assert got == [b"0", b"1", b"2"] and places(Path(spool.path)) == {}


async def test_an_exception_gives_it_back(spool: Spool) -> None:
    spool.put(b"")
    with pytest.raises(ZeroDivisionError):
        async for claim in spool.aclaims():
            async with claim:
                _ = 1 / 0
    assert spool.depth() == 1 and spool.claim() is None


@pytest.mark.parametrize("is_cancelled", [False, True])
async def test_wake_ends_a_wait_without_end_and_cancelling_loses_nothing(spool: Spool, is_cancelled: bool) -> None:
    async def wait() -> list[Claim]:
        return [claim async for claim in spool.aclaims(timeout=None)]

    waiting = asyncio.create_task(wait())
    await asyncio.sleep(0)
    if is_cancelled:
        waiting.cancel()
    else:
        spool.wake()
    with pytest.raises(asyncio.CancelledError) if is_cancelled else nullcontext():
        assert await waiting == []
    spool.put(b"")
    assert spool.depth() == 1


async def test_no_descriptor_stays_open(spool: Spool) -> None:
    spool.put_many([b"", b""])
    before = os.listdir("/proc/self/fd")
    _ = spool.aclaims(timeout=None)
    claims = spool.aclaims(timeout=None)
    async for claim in claims:
        claim.ack()
        break
    await claims.aclose()  # type: ignore[attr-defined]  # an async generator is more than an iterator
    claimed(spool).ack()
    presence = 2  # the consumer's own, and the directory that it lies in
    assert len(os.listdir("/proc/self/fd")) <= len(before) + presence + 1


@pytest.mark.parametrize("error", [None, ValueError])
async def test_a_child_that_leaves_an_asynchronous_block_leaves_the_claim_to_its_parent(
    spool: Spool, error: type[Exception] | None
) -> None:
    spool.put(b"")
    claim = claimed(spool)

    def leave() -> None:
        with suppress(StopIteration):  # no event loop: nothing is waited for
            claim.__aexit__(error, error and error(), None).send(None)

    assert in_child(leave) == 0
    assert os.listdir(Path(spool.path, "cur")) == [claim.name] and spool.depth() == 0
    claim.ack()


def test_an_asynchronous_iteration_does_not_go_on_in_a_child(spool: Spool) -> None:
    spool.put_many([b"", b""])
    claims = aiter(spool.aclaims())

    def step() -> None:
        anext(claims).send(None)  # type: ignore[attr-defined]

    with pytest.raises(StopIteration) as stepped:
        step()

    def child() -> None:
        with pytest.raises(ClaimLost, match="this is its child"):
            step()

    assert in_child(child) == 0
    stepped.value.value.ack()


# What it loads, and what its documentation has examples of

HEAVY = {"textual", "rich", "watchfiles", "psutil", "filelock", "redis", "asyncio", "hashlib", "ssl", "logging"}


@pytest.mark.parametrize("module", ["spooltop.engine", "spooltop.engine.tickets"])
def test_the_engine_loads_nothing_of_the_dashboard(module: str) -> None:
    code = f"import sys, {module}; print(*{{name.partition('.')[0] for name in sys.modules}})"
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert "spooltop" in loaded and HEAVY & set(loaded) == set()


@pytest.mark.parametrize("module", [engine, tickets])
def test_every_public_name_has_an_example(module: ModuleType) -> None:
    parse = doctest.DocTestParser().get_examples
    # An error is shown by what an example prints.
    used = {word for one in parse(module.__doc__ or "") for word in re.findall(r"\w+", one.source + one.want)}
    assert [name for name in module.__all__ if name not in used and not has_example(getattr(module, name))] == []


def has_example(thing: object) -> bool:
    """Returns whether its docstring, or that of one of its methods, holds an example."""
    return any(test.examples for test in doctest.DocTestFinder().find(thing, "thing"))
