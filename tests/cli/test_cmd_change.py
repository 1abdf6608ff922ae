"""Plan, question, result and exit code of a change, on a control that only remembers."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from spooltop.errors import Refused
from spooltop.model.filters.selection import Selection
from spooltop.model.operations.plan import Item, ItemResult, Outcome, Plan, Refusal, Result
from spooltop.model.operations.progress import EVERY, Progress
from spooltop.model.row import Row
from spooltop.model.vocabulary import Action, Box, Json, Verdict
from spooltop.operate.confirm import confirm_for
from tests.clock import NOW

from .streams import spooltop

HOSTILE = "a\x1b[31mb\n\udcff\\"
SHOWN = r"a\x1b[31mb\x0a\xff\\"


def row(name: str, verdict: Verdict | None = Verdict.DEAD) -> Row:
    return Row(key=name, box=Box.CUR, id=name, name=name, in_box_since=NOW - 2460, attempt=1, verdict=verdict)


class Remembering:
    """A control over ``rows``; it does what ``outcome`` says and remembers what was asked."""

    def __init__(
        self,
        *rows: Row,
        refused: tuple[Refusal, ...] = (),
        missing: tuple[str, ...] = (),
        outcome: Callable[[Row], ItemResult] | None = None,
        refusal: str = "",
    ) -> None:
        self.rows, self.refused, self.missing, self.refusal = rows, refused, missing, refusal
        self.outcome = outcome or (lambda row: ItemResult(row.id, row.name, Outcome.DONE))
        self.selection = Selection()
        self.force = False
        self.options: Mapping[str, Json] = {}
        self.applied = 0
        self.opened: dict[str, Any] = {}

    def __call__(self, path: str, **options: Any) -> Any:
        self.opened = options
        return self

    def __enter__(self) -> Remembering:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def plan(
        self, action: Action, selection: Selection, *, force: bool, options: Mapping[str, Json],
        on_progress: Callable[[str], object], stop: Callable[[], bool],
    ) -> Plan:  # fmt: skip
        if self.refusal:
            raise Refused(self.refusal)
        self.selection, self.force, self.options = selection, force, options
        items = [Item(row, row.name) for row in self.rows]
        uncertain = any(row.verdict is Verdict.UNKNOWN for row in self.rows)
        return Plan(
            "7f3a", action, "/spool", NOW, selection, items, self.refused, ("a note",),
            confirm_for(len(items), uncertain=uncertain), options=options, missing=self.missing,
        )  # fmt: skip

    def apply(self, plan: Plan, on_progress: object = None, stop: Callable[[], bool] = lambda: False) -> Result:
        self.applied += 1
        results = []
        for item in plan.items:
            if stop():
                break
            results.append(self.outcome(item.row))
        untried = len(plan.items) - len(results)
        return Result(
            "7f3a", plan.action, plan.target, NOW, results, untried > 0, untried, ("spooltop", "undo", "/spool", "7f3a")
        )


def test_without_a_terminal_and_without_yes_it_refuses_and_shows_the_plan() -> None:
    control = Remembering(row("m1"))
    done = spooltop("requeue", "/spool", "m1", opener=control)
    assert (done.code, control.applied) == (3, 0)
    assert "requeue 1" in done.out
    assert "m1" in done.out
    assert "note: a note" in done.out
    assert "--yes" in done.err


def test_yes_does_it_and_says_what_came_of_it() -> None:
    control = Remembering(row("m1"), row("m2"))
    done = spooltop("requeue", "/spool", "--verdict", "dead", "--yes", opener=control)
    assert (done.code, control.applied) == (0, 1)
    assert "requeued 2 · skipped 0 · failed 0 · operation 7f3a" in done.out
    assert "undo it: spooltop undo /spool 7f3a" in done.out
    assert control.selection == Selection(verdict=Verdict.DEAD)


def test_dry_run_stops_before() -> None:
    control = Remembering(row("m1"))
    done = spooltop("purge", "/spool", "m1", "--dry-run", "--yes", opener=control)
    assert (done.code, control.applied) == (0, 0)
    assert "purge 1" in done.out


@pytest.mark.parametrize(
    ("count", "verdict", "typed", "code"),
    [
        (1, Verdict.DEAD, "y", 0),
        (9, Verdict.DEAD, "y", 0),
        (1, Verdict.DEAD, "", 3),
        (1, Verdict.DEAD, "n", 3),
        (1, Verdict.DEAD, "yes", 3),
        (10, Verdict.DEAD, "y", 3),
        (10, Verdict.DEAD, "Y", 0),
        (100, Verdict.DEAD, "Y", 3),
        (100, Verdict.DEAD, "100", 0),
        (2, Verdict.UNKNOWN, "y", 3),
        (2, Verdict.UNKNOWN, "2", 0),
        (2, Verdict.UNKNOWN, "3", 3),
    ],
)
def test_on_a_terminal_it_asks_the_harder_the_more_there_is(count: int, verdict: Verdict, typed: str, code: int) -> None:
    control = Remembering(*(row(f"m{number}", verdict) for number in range(count)))
    done = spooltop("requeue", "/spool", "ALL", stdin=f"{typed}\n".encode(), tty=True, opener=control)
    assert (done.code, control.applied) == (code, int(code == 0))


def test_the_question_at_the_end_of_input_is_a_no() -> None:
    control = Remembering(row("m1"))
    assert spooltop("requeue", "/spool", "ALL", tty=True, opener=control).code == 3
    assert control.applied == 0


def test_nothing_matched_is_4() -> None:
    assert spooltop("requeue", "/spool", "ALL", "--yes", opener=Remembering()).code == 4


def test_an_id_that_is_not_there_is_named_and_4() -> None:
    done = spooltop("requeue", "/spool", "gone", "--yes", opener=Remembering(missing=("gone",)))
    assert done.code == 4
    assert "gone" in done.out


def test_all_refused_is_3_and_says_why() -> None:
    refusal = Refusal(row("m1", Verdict.ALIVE), "5200 worker.py: running", forceable=True)
    control = Remembering(refused=(refusal,))
    done = spooltop("requeue", "/spool", "m1", "--yes", opener=control)
    assert (done.code, control.applied) == (3, 0)
    assert "m1: 5200 worker.py: running (once its holder exits, it is DEAD; --force takes it now)" in done.out
    assert "--force" in done.err


def test_some_refused_is_1() -> None:
    control = Remembering(row("m1"), refused=(Refusal(row("m2"), "alive"),))
    done = spooltop("requeue", "/spool", "ALL", "--yes", opener=control)
    assert (done.code, control.applied) == (1, 1)


def test_skipped_and_failed_are_named_and_1() -> None:
    def outcome(row: Row) -> ItemResult:
        if row.id == "m1":
            return ItemResult(row.id, row.name, Outcome.DONE)
        return ItemResult(row.id, row.name, Outcome.SKIPPED if row.id == "m2" else Outcome.FAILED, "gone")

    done = spooltop("requeue", "/spool", "ALL", "--yes", opener=Remembering(row("m1"), row("m2"), row("m3"), outcome=outcome))
    assert done.code == 1
    assert "skipped m2: gone" in done.out
    assert "failed m3: gone" in done.out


def test_what_the_door_refuses_is_3_in_one_line() -> None:
    done = spooltop("inject", "/spool", "--yes", opener=Remembering(refusal="inject: this is a mail folder"))
    assert (done.code, done.out, done.err) == (3, "", "spooltop: inject: this is a mail folder\n")


def test_read_only_and_what_it_is_reach_the_door() -> None:
    control = Remembering(row("m1"))
    spooltop("--read-only", "--as", "spool", "requeue", "/spool", "ALL", "--dry-run", opener=control)
    assert control.opened == {"read_only": True, "as_kind": "spool", "watch": False, "patience": 10.0}


def test_json_gives_one_object_with_every_result() -> None:
    refused = (Refusal(row("m9"), "alive", forceable=True),)
    done = spooltop("requeue", "/spool", "ALL", "--yes", "--json", opener=Remembering(row(HOSTILE), refused=refused))
    thing = json.loads(done.out)
    assert done.code == 1
    assert thing["schema"] == 1
    assert (thing["done"], thing["skipped"], thing["failed"]) == (1, 0, 0)
    assert thing["items"] == [{"id": SHOWN, "name": SHOWN, "outcome": "done", "reason": "", "became": ""}]
    assert thing["refused"][0]["id"] == "m9"
    assert thing["undo"] == ["spooltop", "undo", "/spool", "7f3a"]


def test_json_of_a_dry_run_lists_the_items() -> None:
    thing = json.loads(spooltop("requeue", "/spool", "ALL", "--dry-run", "--json", opener=Remembering(row("m1"))).out)
    assert thing["dry_run"] is True
    assert [item["id"] for item in thing["items"]] == ["m1"]


def test_ids_come_from_lines_of_ls_and_from_plain_lines() -> None:
    control = Remembering(row("m1"))
    lines = json.dumps({"schema": 1, "id": SHOWN, "box": "cur"}) + "\n" + SHOWN + "\n\nplain\n{no json\n"
    spooltop("requeue", "/spool", "-", "--dry-run", stdin=lines.encode(), opener=control)
    assert control.selection.ids == (HOSTILE, "plain", "{no json")


def test_ids_that_are_no_utf8_come_as_they_are_too() -> None:
    control = Remembering(row("m1"))
    spooltop("requeue", "/spool", "-", os.fsdecode(b"\xfe"), "--dry-run", stdin=b"\xff\n", opener=control)
    assert control.selection.ids == (os.fsdecode(b"\xfe"), os.fsdecode(b"\xff"))


def test_no_lines_at_all_select_nothing() -> None:
    control = Remembering()
    assert spooltop("requeue", "/spool", "-", "--yes", opener=control).code == 4
    assert control.selection.ids == ()


@pytest.mark.parametrize("line", ['{"box": "cur"}', '{"id": 7}', "{}"])
def test_a_line_without_an_id_selects_nothing(line: str) -> None:
    control = Remembering(row("m1"))
    done = spooltop("requeue", "/spool", "-", "--dry-run", stdin=f"m1\n{line}\n".encode(), opener=control)
    assert (done.code, "a line of stdin has no id" in done.err) == (2, True)


def test_a_restore_can_be_forced() -> None:
    control = Remembering(row("m1"))
    assert spooltop("restore", "/spool", "m1", "--box", "trash", "--force", "--dry-run", opener=control).code == 0
    assert control.force


def test_purge_takes_the_box_of_the_lines() -> None:
    control = Remembering(row("m1"))
    spooltop("purge", "/spool", "-", "--dry-run", stdin=b'{"id": "m1", "box": "tmp"}\n', opener=control)
    assert control.selection == Selection(box=Box.TMP, ids=("m1",))


def test_purge_of_lines_of_two_boxes_wants_one_named() -> None:
    lines = b'{"id": "m1", "box": "tmp"}\n{"id": "m2", "box": "new"}\n'
    assert spooltop("purge", "/spool", "-", "--yes", stdin=lines, opener=Remembering(row("m1"))).code == 2


def test_purge_of_a_box_needs_no_more_words() -> None:
    control = Remembering(row("m1"))
    assert spooltop("purge", "/spool", "--box", "tmp", "--yes", opener=control).code == 0
    assert control.selection == Selection(box=Box.TMP)


def test_all_the_words_of_a_selection() -> None:
    control = Remembering(row("m1"))
    words = ["--box", "cur", "--source", r"a\x0ab", "--older-than", "10m", "--verdict", "dead", "--filter", "!x", "--force"]
    spooltop("requeue", "/spool", "m1", *words, "m2", "--dry-run", opener=control)
    assert control.selection == Selection(Box.CUR, ("m1", "m2"), None, "a\nb", 600.0, Verdict.DEAD, "!x")
    assert control.force is True


def test_the_options_of_inject_and_undo() -> None:
    control = Remembering(row("m1"))
    spooltop("inject", "/spool", "--count", "3", "--text", "t", "--canary", "--rate", "5", "--dry-run", opener=control)
    assert control.options == {"count": 3, "text": "t", "canary": True, "rate": 5.0}
    spooltop("inject", "/spool", "--file", r"a\x0ab", "--dry-run", opener=control)
    assert control.options == {"count": 1, "file": "a\nb"}
    assert spooltop("inject", "/spool", "--file", "a", "--size", "1", opener=control).code == 2
    spooltop("undo", "/spool", "7f", "--dry-run", opener=control)
    assert control.options == {"undoes": "7f"}


def test_a_hostile_name_is_printed_harmlessly() -> None:
    done = spooltop("requeue", "/spool", "ALL", "--yes", opener=Remembering(row(HOSTILE)))
    assert SHOWN in done.out
    assert "\x1b" not in done.out


def test_an_interrupt_ends_between_two_items_and_still_tells_the_result() -> None:
    def outcome(row: Row) -> ItemResult:
        signal.raise_signal(signal.SIGINT)
        return ItemResult(row.id, row.name, Outcome.DONE)

    done = spooltop("requeue", "/spool", "ALL", "--yes", opener=Remembering(row("m1"), row("m2"), outcome=outcome))
    assert done.code == 130
    assert "requeued 1" in done.out
    assert "not attempted 1" in done.out


def test_an_interrupt_while_the_plan_is_made_ends_it_and_nothing_is_done() -> None:
    class Slow(Remembering):
        def plan(
            self, action: Action, selection: Selection, *, force: bool, options: Mapping[str, Json],
            on_progress: Callable[[str], object], stop: Callable[[], bool],
        ) -> Plan:  # fmt: skip
            progress = Progress(stop, on_progress)
            for number in progress.each(range(4 * EVERY)):
                if number == EVERY:
                    signal.raise_signal(signal.SIGINT)
            raise AssertionError("it went on")

    control = Slow(row("m1"))
    done = spooltop("requeue", "/spool", "ALL", "--yes", tty=True, opener=control)
    assert (done.code, control.applied) == (130, 0)
    assert done.err == "spooltop: stopped on the way; nothing was changed\n"  # within a second no progress is shown
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_second_interrupt_ends_a_plan_that_does_not_ask() -> None:
    class Hanging(Remembering):
        def plan(
            self, action: Action, selection: Selection, *, force: bool, options: Mapping[str, Json],
            on_progress: Callable[[str], object], stop: Callable[[], bool],
        ) -> Plan:  # fmt: skip
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
            raise AssertionError("it went on")

    assert spooltop("requeue", "/spool", "ALL", "--yes", opener=Hanging(row("m1"))).code == 130


def test_what_nobody_foresaw_is_one_line_and_a_traceback_only_for_debugging(tmp_path: Path) -> None:
    def broken(path: str, **options: Any) -> Any:
        raise RuntimeError("odd\nthing")

    done = spooltop("status", tmp_path, opener=broken)
    assert done.code == 1
    assert done.err == "spooltop: RuntimeError: odd\\x0athing; this is a defect: SPOOLTOP_DEBUG=1 shows where\n"
