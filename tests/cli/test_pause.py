"""``pause`` and ``resume`` on a real spool: plan, question, result, exit codes."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from spooltop.engine import Spool

from .streams import spooltop


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    Spool.create(tmp_path / "s").close()
    return tmp_path / "s"


def test_the_plan_is_shown_and_asked_for(spool: Path) -> None:
    done = spooltop("pause", spool, "--reason", "a schema change", stdin=b"n\n", tty=True)
    assert done.code == 3 and "pause? Type y, anything else cancels: " in done.out + done.err
    lines = done.out.splitlines()
    assert lines[0].startswith(f"pause {spool} · as of ")
    assert lines[1] == "   Consumers of spooltop claim no message until it is resumed"
    assert lines[2] == "note: No spooltop consumer is at work now."
    assert f"hold keeps messages from them: spooltop hold {spool} --box new ALL" in lines[3]
    assert lines[4] == f"as a command: spooltop pause {spool} --reason 'a schema change'"
    assert not (spool / ".spooltop").exists()
    assert spooltop("pause", spool, stdin=b"y\n", tty=True).code == 0 and (spool / ".spooltop/paused").exists()


def test_without_a_terminal_only_yes_does_it(spool: Path) -> None:
    assert spooltop("pause", spool).code == 3 and not (spool / ".spooltop").exists()
    assert spooltop("pause", spool, "--dry-run").code == 0 and not (spool / ".spooltop").exists()
    done = spooltop("pause", spool, "--yes")
    assert done.code == 0 and "paused 1 · skipped 0 · failed 0" in done.out


def test_twice_is_refused_with_who_since_when_and_why(spool: Path) -> None:
    assert spooltop("pause", spool, "--yes", "--reason", "x\x1by").code == 0
    done = spooltop("pause", spool, "--yes")
    assert done.code == 3
    assert done.err.startswith(f"spooltop: {spool}: pause: nothing done: it is paused already, by ") and "x\\x1by" in done.err
    assert spooltop("resume", spool, "--yes").code == 0
    done = spooltop("resume", spool, "--yes")
    assert (done.code, done.err) == (3, f"spooltop: {spool}: resume: nothing done: it is not paused\n")


def test_the_object_names_the_operation_and_its_undo_works(spool: Path) -> None:
    value = json.loads(spooltop("pause", spool, "--yes", "--json", "--reason", "why").out)
    assert (value["action"], value["done"], value["refused"]) == ("pause", 1, [])
    assert value["undo"] == ["spooltop", "undo", str(spool), value["operation"]]
    assert spooltop(*value["undo"][1:], "--yes").code == 0 and not (spool / ".spooltop/paused").exists()
    refused = json.loads(spooltop("resume", spool, "--yes", "--json").out)
    assert refused["count"] == 0 and refused["refused"][0]["reason"] == "it is not paused"


@pytest.mark.parametrize("reason", ["it's \\ \"so\"", "-x", "a\nb"])
def test_the_command_of_the_plan_does_the_same(spool: Path, reason: str) -> None:
    shown = spooltop("pause", spool, "--dry-run", f"--reason={reason}").out.splitlines()[-1]
    _, command, words = shown.partition("as a command: spooltop ")
    assert command and spooltop(*shlex.split(words), "--yes").code == 0
    with Spool(spool) as opened:
        assert opened.paused is not None and opened.paused.reason in (reason, "a\\x0ab")


def test_a_long_reason_is_a_usage_error_and_a_read_only_target_refuses(spool: Path) -> None:
    assert spooltop("pause", spool, "--yes", "--reason", "r" * 201).code == 2
    for command in ("pause", "resume"):
        done = spooltop(command, spool, "--yes", "--read-only")
        assert done.code == 3 and "read-only" in done.err

