"""``check`` as a monitoring system calls it, beyond what is recorded."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spooltop.control import Control, open_control
from spooltop.engine import Spool
from tests.monitor.plugin_output import Output, parse

from .streams import spooltop


def check(*words: str | Path, code: int, **more: Any) -> Output:
    done = spooltop("check", *words, **more)
    assert (done.code, done.err) == (code, "")
    found = parse(done.out)
    assert found.state == ("OK", "WARNING", "CRITICAL", "UNKNOWN")[code]
    return found


def test_several_targets_have_a_line_each_whatever_their_names(tmp_path: Path, spool: Path) -> None:
    other = tmp_path / "it's=o|d"
    with Spool.create(other, durable=False) as queue:
        queue.put_many([b"x"] * 2)
    found = check(spool, other, tmp_path / "none", spool, "-c", "depth=1", code=2)
    assert found.text.startswith("3 targets: 1 CRITICAL, 1 UNKNOWN, 1 OK - ")
    assert [line.split(" - ")[0] for line in found.more] == ["SPOOL CRITICAL", "SPOOL UNKNOWN", "SPOOL OK"]
    assert str(other).replace("|", "/") in found.more[0]
    assert found.data[f"{tmp_path}/it's_o_d depth"] == ("2", "", "", "1", "0", "")


def test_a_look_that_hangs_or_fails_is_unknown_and_the_others_are_judged(spool: Path) -> None:
    hung = threading.Event()

    def opener(path: str, **options: Any) -> Control:
        if path == "hangs":
            hung.wait()
        if path == "fails":
            raise ZeroDivisionError("an example")
        return open_control(path, **options)

    try:
        found = check("hangs", "fails", spool, "-t", "2", code=3, opener=opener)
    finally:
        hung.set()
    assert found.text.startswith("3 targets: 2 UNKNOWN, 1 OK - ")
    hangs, fails, fine = found.more
    assert hangs == "SPOOL UNKNOWN - hangs: no answer within 2s"
    assert "ZeroDivisionError: an example, this is a defect" in fails and "no problems" in fine


def dirq(path: Path) -> Path:
    """A queue of dirq with an element that its consumer has locked."""
    element = path / "65a1b2c3" / "65a1b2c3d4e5f0"
    element.parent.mkdir(parents=True)
    element.write_bytes(b"x")
    os.link(element, f"{element}.lck")
    return element


def mailman(path: Path) -> Path:
    """Mailman's queues with a message that a runner works on."""
    for name in ("in", "out", "pipeline", "shunt", "bad"):
        (path / name).mkdir(parents=True)
    claimed = path / "in" / f"{time.time():.0f}.0+{'ab' * 20}.bak"
    claimed.write_bytes(b"x")
    return claimed


@pytest.mark.parametrize("queue", [dirq, mailman])
def test_a_claim_that_nothing_can_prove_dead_warns_once_it_is_old(
    queue: Callable[[Path], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "queue"
    os.utime(queue(path))
    assert check(path, code=0).data["dead"][0] == "U"
    assert check(path, "-w", "claim-long", "-c", "claim-long=1", code=0)
    for words in (["claims-dead"], ["dead=0"], ["claims-unknown"], ["poison"]):
        assert "nothing here proves that a holder is dead" in check(path, "-c", *words, code=3).text
    monkeypatch.setenv("SPOOLTOP_CLAIM_LONG", "0.001")  # the time of a change of name cannot be set
    assert check(path, code=1).text.startswith("1 claim held ")
    assert "holder unknown: its claim names nobody" in check(path, "-w", "claim-long", code=1).text
    check(path, "-c", "claim-long=0", code=2)


def test_a_folder_of_a_queue_that_may_not_be_read_is_not_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    claimed = mailman(tmp_path)
    claimed.rename(claimed.with_suffix(".pck"))
    (tmp_path / "private").mkdir()
    assert check(tmp_path, code=0).data["depth"][0] == "1"
    scandir = os.scandir

    def closed(to: str, error: OSError) -> None:
        def scan(folder: Any = ".") -> Any:
            if isinstance(folder, int) and os.readlink(f"/proc/self/fd/{folder}") == str(tmp_path / to):
                raise error
            return scandir(folder)

        monkeypatch.setattr(os, "scandir", scan)

    closed("in", PermissionError(13, "Permission denied"))
    assert check(tmp_path, code=3).text.startswith("the look is not complete: in/: Permission denied - new ≥0 - claims ≥0")
    for words in ("depth=5", "claim-long", "new-old", "tmp-old"):
        assert "Permission denied" in check(tmp_path, "-c", words, code=3).text
    assert check(tmp_path, "-c", "depth=@0:", code=2)
    closed("private", PermissionError(13, "Permission denied"))  # no message lies there
    check(tmp_path, code=0)
    closed("in", FileNotFoundError(2, "No such file or directory"))  # it has just gone
    check(tmp_path, code=0)
