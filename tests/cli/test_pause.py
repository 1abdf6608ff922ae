"""``pause`` on a real spool: its question, and its command pasted."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from spooltop.engine import Spool

from .streams import spooltop


def test_the_plan_is_shown_and_asked_for(spool: Path) -> None:
    done = spooltop("pause", spool, "--reason", "a schema change", stdin=b"n\n", tty=True)
    assert done.code == 3 and "pause? Type y, anything else cancels: " in done.out + done.err
    assert done.out.startswith(f"pause {spool} · as of ") and not (spool / ".spooltop").exists()
    assert spooltop("pause", spool, stdin=b"y\n", tty=True).code == 0 and (spool / ".spooltop/paused").exists()
    assert spooltop("resume", spool, "--yes", "--read-only").code == 3 and (spool / ".spooltop/paused").exists()


@pytest.mark.parametrize("reason", ["it's \\ \"so\"", "-x", "a\nb"])
def test_the_command_of_the_plan_does_the_same(spool: Path, reason: str) -> None:
    shown = spooltop("pause", spool, "--dry-run", f"--reason={reason}").out.splitlines()[-1]
    _, command, words = shown.partition("as a command: spooltop ")
    assert command and spooltop(*shlex.split(words), "--yes").code == 0
    with Spool(spool) as opened:
        assert opened.paused is not None and opened.paused.reason in (reason, "a\\x0ab")


def test_a_long_reason_is_a_usage_error(spool: Path) -> None:
    assert spooltop("pause", spool, "--yes", "--reason", "r" * 201).code == 2
