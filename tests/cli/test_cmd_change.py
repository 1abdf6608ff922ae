"""Selection, question and result of a change, its command, and interrupts on the way."""

from __future__ import annotations

import json
import os
import shlex
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spooltop.control import Control
from spooltop.engine import Spool
from spooltop.errors import Refused
from spooltop.model.plan import Plan, Result, Selection
from spooltop.model.vocabulary import Box, Verdict
from tests.builders import SpoolWorld, message_id

from .streams import Done, spooltop

HOSTILE = "a\x1b[31mb\n\udcff\\"
SHOWN = r"a\x1b[31mb\x0a\xff\\"


class Asked:
    """A control that remembers what a plan is asked for, and makes none."""

    selection = Selection()
    force = False

    def __call__(self, path: str, **options: Any) -> Any:
        return self

    def __enter__(self) -> Asked:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def plan(self, action: object, selection: Selection, *, force: bool, **rest: object) -> Plan:
        self.selection, self.force = selection, force
        raise Refused("nothing is planned here")


def asked(*words: str, stdin: bytes = b"") -> Asked:
    control = Asked()
    assert spooltop(words[0], "/spool", *words[1:], stdin=stdin, opener=control).code == 3
    return control


def test_ids_come_from_lines_of_ls_and_from_plain_lines() -> None:
    lines = json.dumps({"schema": 1, "id": SHOWN, "box": "cur"}) + "\n" + SHOWN + "\n\nplain\n{no json\n"
    assert asked("requeue", "-", stdin=lines.encode()).selection.ids == (HOSTILE, "plain", "{no json")
    assert asked("requeue", "-", "\udcfe", stdin=b"\xff\n").selection.ids == ("\udcfe", "\udcff")
    assert asked("requeue", "-").selection.ids == ()
    one, other = b'{"id": "m1", "box": "tmp"}\n', b'{"id": "m2", "box": "new"}\n'
    assert asked("purge", "-", stdin=one).selection == Selection(box=Box.TMP, ids=("m1",))
    assert spooltop("purge", "/spool", "-", "--yes", stdin=one + other, opener=Asked()).code == 2


def test_ids_from_a_terminal_are_asked_for(spool: Path) -> None:
    fill(spool, 1)
    words = ("purge", spool, "--box", "new", "-", "--dry-run")
    done = spooltop(*words, stdin=b"m0\n", tty=True)
    assert done.code == 0 and "reading ids from the terminal, one a line; Ctrl-D ends" in done.err
    assert "reading ids" not in spooltop(*words, stdin=b"m0\n").err


def test_all_the_words_of_a_selection() -> None:
    words = ["--box", "cur", "--source", r"a\x0ab", "--older-than", "10m", "--verdict", "dead", "--filter", "!x", "--force"]
    control = asked("requeue", "m1", *words, "m2")
    assert control.selection == Selection(Box.CUR, ("m1", "m2"), None, "a\nb", 600.0, Verdict.DEAD, "!x")
    assert control.force and asked("restore", "m1", "--box", "trash", "--force").force


@pytest.mark.parametrize(
    ("count", "typed", "code"),
    [(1, "y", 0), (9, "y", 0), (1, "", 3), (1, "yes", 3), (10, "y", 3), (10, "Y", 0), (100, "Y", 3), (100, "100", 0)],
)
def test_on_a_terminal_it_asks_the_harder_the_more_there_is(spool: Path, count: int, typed: str, code: int) -> None:
    fill(spool, count)
    done = spooltop("hold", spool, "--box", "new", "ALL", stdin=f"{typed}\n".encode(), tty=True)
    assert (done.code, len(os.listdir(spool / "new"))) == (code, count if code else 0)


def test_emptying_wants_the_number_however_few_they_are(spool: Path) -> None:
    fill(spool, 1)
    assert spooltop("purge", spool, "m0", "--yes").code == 0
    for typed, code in (("y", 3), ("2", 3), ("1", 0)):
        assert spooltop("purge", spool, "--box", "trash", "ALL", stdin=f"{typed}\n".encode(), tty=True).code == code


def fill(spool: Path, count: int) -> None:
    for number in range(count):
        (spool / "new" / f"m{number}").touch()


def hold_three(spool: Path, *words: str) -> Done:
    fill(spool, 3)
    return spooltop("hold", spool, "--box", "new", "ALL", "--yes", *words)


def test_an_interrupt_ends_between_two_items_and_still_tells_the_result(spool: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    apply = Control.apply

    def interrupted(self: Control, plan: Plan, on_progress: object, stop: Callable[[], bool]) -> Result:
        def stop_after_one() -> bool:
            if len(os.listdir(spool / "new")) == 2:
                signal.raise_signal(signal.SIGINT)
            return stop()

        return apply(self, plan, stop=stop_after_one)

    monkeypatch.setattr(Control, "apply", interrupted)
    done = hold_three(spool, "--rate", "1000/s")
    assert done.code == 130
    assert "held 1" in done.out and "not attempted 2" in done.out


@pytest.mark.parametrize("times", [1, 2])
def test_an_interrupt_while_the_plan_is_made_changes_nothing(spool: Path, times: int, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = Control.plan

    def interrupted(self: Control, *words: Any, **named: Any) -> Plan:
        for _ in range(times):
            signal.raise_signal(signal.SIGINT)
        assert times == 1, "the second signal ends a plan that does not ask for the first"
        return plan(self, *words, **named)

    monkeypatch.setattr(Control, "plan", interrupted)
    assert hold_three(spool).code == 130
    assert len(os.listdir(spool / "new")) == 3
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_the_command_of_a_planned_pause_does_the_same(spool: Path) -> None:
    shown = spooltop("pause", spool, "--dry-run", "--reason=-x it's \\ \"so\"").out.splitlines()[-1]
    _, command, words = shown.partition("as a command: spooltop ")
    assert command and spooltop(*shlex.split(words), "--yes").code == 0
    with Spool(spool) as opened:
        assert opened.paused is not None and opened.paused.reason == "-x it's \\ \"so\""


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (RuntimeError("odd\nthing"), 1, "spooltop: RuntimeError: odd\\x0athing; this is a defect: SPOOLTOP_DEBUG=1 shows"),
        (OSError(5, "Input/output error", "a\nb"), 5, "spooltop: a\\x0ab: Input/output error; look at the kernel's log"),
    ],
)
def test_what_nobody_foresaw_is_one_line_and_a_traceback_only_for_debugging(error: Exception, code: int, said: str) -> None:
    def broken(path: str, **options: Any) -> Any:
        raise error

    done = spooltop("status", "/spool", opener=broken)
    assert (done.code, done.err.count("\n")) == (code, 1) and done.err.startswith(said)


# Claims of holders that are unknown


@pytest.fixture
def unknown(world: SpoolWorld) -> SpoolWorld:
    """Two claims whose pid no process can have, and one of a dead consumer."""
    world.put(message_id(1))
    world.claim_dead()
    for number in range(2):
        world.claim_foreign(f"job{number}", pid=0)
    return world


@pytest.mark.parametrize("action", ["requeue", "hold", "purge"])
def test_yes_alone_is_refused_where_a_holder_is_unknown(unknown: SpoolWorld, action: str) -> None:
    done = spooltop(action, unknown.path, "--box", "cur", "ALL", "--yes")
    assert done.code == 3 and done.err.startswith(f"spooltop: {action}: nothing done: it is unknown who holds 2 of 3; look at ")
    assert len(unknown.names(Box.CUR)) == 3


@pytest.mark.parametrize(("typed", "code"), [("Y", 3), ("2", 3), ("3", 0)])
def test_on_a_terminal_the_number_is_typed(unknown: SpoolWorld, typed: str, code: int) -> None:
    assert spooltop("requeue", unknown.path, "ALL", stdin=f"{typed}\n".encode(), tty=True).code == code
    assert len(unknown.names(Box.NEW)) == (0 if code else 3)


@pytest.mark.parametrize(
    ("words", "stdin"),
    [
        (["-"], b'{"id": "job0", "box": "cur"}\njob1\n'), (["--filter", "verdict:unknown"], b""),
        (["--verdict", "unknown"], b""), (["job0", "job1"], b""),
    ],
)  # fmt: skip
def test_every_way_to_select_asks_the_same(unknown: SpoolWorld, words: list[str], stdin: bytes) -> None:
    done = spooltop("requeue", unknown.path, *words, "--yes", "--json", stdin=stdin)
    assert (done.code, "it is unknown who holds 2 of 2" in done.err, len(done.err.splitlines())) == (3, True, 1)
    assert [item["id"] for item in json.loads(done.out)["items"]] == ["job0", "job1"]
    done = spooltop("requeue", unknown.path, *words, "--yes=2", "--json", stdin=stdin)
    assert (done.code, json.loads(done.out)["done"], unknown.names(Box.NEW)) == (0, 2, ["job0", "job1"])
