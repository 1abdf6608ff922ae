"""A paused spool: no consumer takes a claim, and everything else goes on."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from spooltop.engine import Spool, SpooltopError
from spooltop.engine.dirs import SpoolDirs
from spooltop.engine.pausing import CHECK_EVERY, PauseCheck, encode_pause, read_pause
from spooltop.model.look.pause import REASON_AT_MOST, Pause, pause_words
from tests.engine.helpers import Interposed

ROOT = Pause("root", 1_800_000_000.5, "a schema change: ü")


def pause(path: str | Path, content: bytes = encode_pause(ROOT)) -> Path:
    own = Path(path, ".spooltop")
    own.mkdir(exist_ok=True)
    (own / ".draft").write_bytes(content)
    return (own / ".draft").replace(own / "paused")


class Tick:
    """A monotonic clock that stands still."""

    def __init__(self) -> None:
        self.now = 50.0

    def __call__(self) -> float:
        return self.now


def test_the_file_is_looked_for_four_times_a_second_at_most(tmp_path: Path) -> None:
    Spool.create(tmp_path).close()
    files, tick = Interposed(), Tick()
    with SpoolDirs(tmp_path, files) as dirs:
        check = PauseCheck(tick)
        assert not check.paused(dirs) and check.due_in() is None
        file = pause(tmp_path)
        before = len(files.calls)
        tick.now += CHECK_EVERY - 0.01
        assert not check.paused(dirs) and len(files.calls) == before
        tick.now += 0.01
        assert check.paused(dirs) and check.due_in() == CHECK_EVERY
        file.unlink()
        tick.now += 0.2
        assert check.paused(dirs) and check.due_in() == pytest.approx(0.05)
        tick.now += 0.06
        assert check.due_in() == 0.0 and not check.paused(dirs) and check.due_in() is None
        tick.now += CHECK_EVERY
        before = len(files.calls)
        check.paused(dirs)
        assert files.calls[before:] == ["is_linked", "fstat", "stat"]


def test_a_paused_spool_gives_no_claim_and_everything_else_goes_on(spool: Spool) -> None:
    first, second = spool.put(b"1"), spool.put(b"2")
    held = spool.claim()
    assert held is not None and held.id == first
    file = pause(spool.path)
    with Spool(spool.path, durable=False) as other:
        assert other.claim() is None and other.claim(timeout=0.01) is None and list(other.claims()) == []
        assert other.paused == ROOT and other.consume(print) == 0
        third = other.put(b"3")
        assert other.depth() == 2 and other.recover() == [] and other.peek() == second
    held.ack()
    file.unlink()
    with Spool(spool.path, durable=False) as other:
        taken = [claim.id for claim in other.claims() if claim.ack() is None]
        assert taken == [second, third] and other.paused is None


def test_a_claim_that_is_released_while_paused_waits_in_new(spool: Spool) -> None:
    id = spool.put(b"1")
    claim = spool.claim()
    assert claim is not None
    file = pause(spool.path)
    claim.release()
    assert spool.depth() == 1
    file.unlink()
    again = spool.claim(timeout=60)
    assert again is not None and again.id == id
    again.ack()


@pytest.mark.parametrize("delay", [0, 0.01], ids=["ready", "delayed and due while paused"])
def test_a_wait_takes_the_message_when_the_spool_is_resumed(spool: Spool, delay: float) -> None:
    id = spool.put(b"1")
    claim = spool.claim()
    assert claim is not None
    claim.release(delay=delay)
    file = pause(spool.path)
    with Spool(spool.path, durable=False) as other:
        threading.Timer(0.3, file.unlink).start()
        taken = other.claim(timeout=60)
        assert taken is not None and taken.id == id and not file.exists()
        taken.ack()


def test_a_wait_on_a_paused_spool_does_not_spin(tmp_path: Path) -> None:
    files = Interposed()
    with Spool.create(tmp_path, durable=False, files=files) as spool:
        spool.put(b"", not_before=1.0)
        pause(tmp_path)
        before = len(files.calls)
        assert spool.claim(timeout=2 * CHECK_EVERY) is None
        assert len(files.calls) - before < 60


async def test_an_event_loop_takes_it_when_the_spool_is_resumed(spool: Spool) -> None:
    spool.put(b"1")
    file = pause(spool.path)
    asyncio.get_running_loop().call_later(0.3, file.unlink)
    async for claim in spool.aclaims(timeout=60):
        async with claim:
            assert not file.exists()
        break
    assert spool.depth() == 0


def test_another_process_takes_nothing_until_the_spool_is_resumed(spool: Spool) -> None:
    code = (
        "import sys; from spooltop.engine import Spool\n"
        "with Spool(sys.argv[1], durable=False) as spool:\n"
        "    print(spool.claim(timeout=0.3), spool.paused.by, flush=True)\n"
        "    with spool.claim(timeout=60) as claim: print(claim.data.decode(), spool.paused, flush=True)\n"
    )
    file = pause(spool.path)
    spool.put(b"job")
    with subprocess.Popen([sys.executable, "-c", code, spool.path], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "None root\n"
            assert spool.depth() == 1
            file.unlink()
            assert process.stdout.readline() == "job None\n"
        finally:
            process.kill()


def test_a_spool_without_a_directory_of_its_own_is_not_paused(tmp_path: Path) -> None:
    with Spool.create(tmp_path, durable=False) as spool:
        assert spool.paused is None and spool.claim() is None
        assert not (tmp_path / ".spooltop").exists()
        pause(tmp_path)
        assert spool.paused == ROOT


HOSTILE = {
    b"": Pause(None, 77.0),
    b"[" * 5000: Pause(None, 77.0),
    b'{"by": 7, "at": "x", "reason": null}': Pause(None, 77.0),
    b'{"by": "", "at": 1e999, "reason": ["x"]}': Pause(None, 77.0),
    b'{"by": "\\u001b[2J", "at": 5, "reason": "a\\nb"}': Pause("\x1b[2J", 5.0, "a\nb"),
    b'{"by": "' + b"u" * 900 + b'", "at": 5, "reason": "' + b"r" * 900 + b'"}': Pause("u" * 64, 5.0, "r" * REASON_AT_MOST),
    b'{"by": "root", "at": 5, "reason": "' + b"r" * 9000 + b'"}': Pause(None, 77.0),
}


@pytest.mark.parametrize("content", HOSTILE)
def test_whatever_the_file_holds_the_spool_is_paused(tmp_path: Path, content: bytes) -> None:
    with Spool.create(tmp_path, durable=False) as spool:
        spool.put(b"")
        os.utime(pause(tmp_path, content), (77.0, 77.0))
        assert spool.paused == HOSTILE[content] and spool.claim() is None


@pytest.mark.parametrize("kind", ["directory", "fifo", "link"])
def test_whatever_has_the_name_the_spool_is_paused(tmp_path: Path, kind: str) -> None:
    with Spool.create(tmp_path, durable=False) as spool:
        spool.put(b"")
        (tmp_path / ".spooltop").mkdir()
        file = tmp_path / ".spooltop/paused"
        if kind == "link":
            file.symlink_to("/nowhere")
        else:
            os.mkfifo(file) if kind == "fifo" else file.mkdir()
        found = spool.paused
        assert found is not None and found.by is None and found.reason == "" and spool.claim() is None


def test_what_the_system_does_not_say_is_an_error_and_no_claim(tmp_path: Path) -> None:
    armed: list[bool] = []

    def fail(_number: int, name: str) -> None:
        if armed and name == "stat":
            raise OSError(5, "Input/output error")

    with Spool.create(tmp_path, durable=False, files=Interposed(fail)) as spool:
        spool.put(b"")
        pause(tmp_path)
        armed.append(True)
        for look in (spool.claim, lambda: spool.paused):
            with pytest.raises(SpooltopError, match="Input/output error"):
                look()
        armed.clear()


def test_the_words_are_escaped() -> None:
    assert pause_words(Pause("a\x1bb", 0.0, "x\ny"), 7200.0) == "by a\\x1bb for 2h: x\\x0ay"
    assert pause_words(Pause("root", 9.0, "why"), 4.0, short=True) == "by root for 0s"


def test_what_is_written_reads_the_same(tmp_path: Path) -> None:
    Spool.create(tmp_path).close()
    for one in (ROOT, Pause(None, 0.25), Pause("u", 1e9, "\udcff" + "🙂" * (REASON_AT_MOST - 1))):
        pause(tmp_path, encode_pause(one))
        with SpoolDirs(tmp_path) as dirs:
            assert read_pause(dirs) == one


def test_a_wait_ends_when_the_pause_is_looked_for_again_or_a_delay_is_over(tmp_path: Path) -> None:
    tick, now = Tick(), [1_000.0]
    Spool.create(tmp_path).close()
    with Spool(tmp_path, clock=lambda: now[0]) as spool:
        waiter = spool._waiter
        assert spool.claim() is None and waiter.due_in() is None
        spool.put(b"")
        claim = spool.claim()
        assert claim is not None
        claim.release(delay=40)
        assert spool.claim() is None and waiter.due_in() == pytest.approx(40, abs=0.01)
        now[0] += 50
        assert waiter.due_in() == 0.0
        pause(tmp_path)
        waiter._consumer.pause = check = PauseCheck(tick)
        assert spool.claim() is None and waiter.due_in() == check.due_in() == CHECK_EVERY
