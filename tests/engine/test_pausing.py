"""A paused spool: no consumer takes a claim, whatever the file is, and waits end when it is resumed."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from spooltop.engine import Spool, SpooltopError
from spooltop.model.snapshot import REASON_AT_MOST, Pause
from tests.engine.helpers import Interposed, claimed, failing


def pause(path: str | Path, content: bytes = b'{"by": "root", "at": 5, "reason": "why"}') -> Path:
    own = Path(path, ".spooltop")
    own.mkdir(exist_ok=True)
    (own / ".draft").write_bytes(content)
    return (own / ".draft").replace(own / "paused")


@pytest.mark.parametrize("delay", [0, 0.01], ids=["ready", "delayed and due while paused"])
def test_a_wait_takes_the_message_when_the_spool_is_resumed(spool: Spool, delay: float) -> None:
    id = spool.put(b"1")
    claim = claimed(spool)
    file = pause(spool.path)
    claim.release(delay=delay)
    assert spool.depth() == 1
    with Spool(spool.path, durable=False) as other:
        threading.Timer(0.3, file.unlink).start()
        with claimed(other, timeout=60) as taken:
            assert taken.id == id and not file.exists()


async def test_an_event_loop_takes_it_when_the_spool_is_resumed(spool: Spool) -> None:
    spool.put(b"1")
    file = pause(spool.path)
    asyncio.get_running_loop().call_later(0.3, file.unlink)
    async for claim in spool.aclaims(timeout=60):
        async with claim:
            assert not file.exists()
        break
    assert spool.depth() == 0


def test_a_wait_on_a_paused_spool_does_not_spin(tmp_path: Path) -> None:
    files = Interposed()
    with Spool.create(tmp_path, durable=False, files=files) as spool:
        spool.put(b"", not_before=1.0)
        pause(tmp_path)
        before = len(files.calls)
        assert spool.claim(timeout=0.5) is None
        assert len(files.calls) - before < 60  # it looks every 0.25 s


HOSTILE = {
    b'{"by": "root", "at": 5, "reason": "why"}': Pause("root", 5.0, "why"),
    b"": Pause(None, 77.0),
    b"[" * 5000: Pause(None, 77.0),
    b'{"by": 7, "at": "x", "reason": null}': Pause(None, 77.0),
    b'{"by": "", "at": 1e999, "reason": ["x"]}': Pause(None, 77.0),
    b'{"by": "\\u001b[2J", "at": 5, "reason": "a\\nb"}': Pause("\x1b[2J", 5.0, "a\nb"),
    b'{"by": "' + b"u" * 900 + b'", "at": 5, "reason": "' + b"r" * 900 + b'"}': Pause("u" * 64, 5.0, "r" * REASON_AT_MOST),
    b'{"by": "root", "at": 5, "reason": "' + b"r" * 9000 + b'"}': Pause(None, 77.0),
}


@pytest.mark.parametrize("content", HOSTILE)
def test_whatever_the_file_holds_the_spool_is_paused(spool: Spool, content: bytes) -> None:
    spool.put(b"")
    assert spool.paused is None and not Path(spool.path, ".spooltop").exists()
    os.utime(pause(spool.path, content), (77.0, 77.0))
    assert spool.paused == HOSTILE[content] and spool.claim() is None


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo, lambda file: file.symlink_to("/nowhere")])
def test_whatever_has_the_name_the_spool_is_paused(spool: Spool, make: Callable[[Path], object]) -> None:
    spool.put(b"")
    Path(spool.path, ".spooltop").mkdir()
    make(Path(spool.path, ".spooltop/paused"))
    assert spool.paused is not None and (spool.paused.by, spool.paused.reason) == (None, "") and spool.claim() is None


def test_what_the_system_does_not_say_is_an_error_and_no_claim(tmp_path: Path) -> None:
    files = failing("stat")
    files.armed = False
    with Spool.create(tmp_path, durable=False, files=files) as spool:
        spool.put(b"")
        pause(tmp_path)
        files.armed = True
        for look in (spool.claim, lambda: spool.paused):
            with pytest.raises(SpooltopError, match="Input/output error"):
                look()
        files.armed = False
