"""Operations on queues of other programs: what each layout needs besides the steps, which the matrix and the machines walk."""

from __future__ import annotations

import errno
import fcntl
import itertools
import json
import os
import tempfile
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from spooltop.backends.layouts.operator.operator import LayoutOperator
from spooltop.backends.layouts.operator.performer import Performer
from spooltop.backends.layouts.reader import LayoutReader
from spooltop.errors import Refused
from spooltop.model.backend import ListQuery
from spooltop.model.plan import Confirm, Outcome, Selection
from spooltop.model.vocabulary import Action, Box, Verdict
from tests.backends.conftest import Interpose
from tests.backends.layouts.queues import Around, opened, outcomes, rows_of, set_default
from tests.builders import ALL, LAYOUTS, LayoutWorld
from tests.cli.streams import spooltop
from tests.matrix.scenes import BY_LAYOUT
from tests.needs import needs

NEW, CUR, HELD = (Selection(box=box, everything=True) for box in (Box.NEW, Box.CUR, Box.HELD))


@pytest.fixture
def jobs(memory: Path) -> Iterator[LayoutWorld]:
    with LayoutWorld(memory, "job-queue") as world:
        yield world


def test_every_action_of_every_layout_that_ships_is_tried() -> None:
    """By the matrix, which kills it or lets it fail at each of its calls."""
    files = [Path(json.loads(line)["file"]) for line in spooltop("layouts", "--json").out.splitlines()]
    actions = {file.stem: tomllib.loads(file.read_text()).get("action", ()) for file in files}
    known = {(name, each["name"], box) for name, many in actions.items() for each in many for box in each["from"].split()}
    assert {(name, action.value, box.value) for name, tried in BY_LAYOUT.items() for action, box in tried} == known
    assert {name for name, many in actions.items() if many} == LAYOUTS.keys()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_action_is_offered_for_a_box_exactly_where_it_is_not_refused(memory: Path, layout: str) -> None:
    with LayoutWorld(memory, layout) as world, world.control() as control:
        able = control.look().observation.capabilities
        from_boxes = (Action.PURGE, Action.HOLD, Action.RELEASE, Action.RESTORE, Action.EMPTY)
        for action in (action for action in from_boxes if able.why_not(action) is None):
            for box in Box:
                try:
                    control.plan(action, Selection(box=box, everything=True))
                except Refused as refused:
                    assert f"{action} is not possible for messages in {box}" in str(refused)
                    assert able.why_not_from(action, box), (action, box)
                else:
                    assert able.why_not_from(action, box) is None, (action, box)


@pytest.mark.parametrize("layout", sorted(name for name, tried in BY_LAYOUT.items() if (Action.HOLD, Box.NEW) in tried))
def test_an_age_means_the_same_in_the_column_the_filter_the_selection_and_the_board(memory: Path, layout: str) -> None:
    now = time.time() + 7 * 86400  # later than each put: the library wrote some
    with LayoutWorld(memory, layout) as world, world.control(clock=lambda: now) as control:
        state = control.look().observation.boxes[Box.NEW]
        ages = {row.id: row.in_box_age(now) or 0 for row in control.listing(ListQuery(Box.NEW)).window(0, 9)}
        assert ages and state.oldest_at is not None
        oldest = max(ages.values())
        assert now - state.oldest_at == oldest
        for seconds in (int(oldest), int(oldest) + 1):
            older = {id for id, age in ages.items() if age >= seconds}
            chosen = Selection(box=Box.NEW, filter=f"age:>={seconds}s"), Selection(box=Box.NEW, older_than=seconds)
            assert [{item.row.id for item in control.plan(Action.HOLD, one).items} for one in chosen] == [older, older]
    assert not older


def test_a_dead_claim_of_a_job_queue_waits_again_behind_the_others(jobs: LayoutWorld) -> None:
    with opened(jobs.path, "job-queue", clock=lambda: 1795220990.5) as control:
        plan = control.plan(Action.REQUEUE, ALL)
        assert [item.id for item in plan.items] == ["slow-1"] and any("comes back for ever" in note for note in plan.notes)
        assert plan.confirm is Confirm.SMALL and "end of the queue, with the same id" in plan.effect
        assert [item.became for item in control.apply(plan).items] == ["queue/000000000006-slow-1.msg"]
    assert (jobs.path / "queue/000000000006-slow-1.msg").exists()
    assert not (jobs.path / "processing/worker-1/slow-1.msg").exists()
    assert (jobs.path / "jobs/slow-1.state").read_text() == "queued:1795220990500"


@pytest.mark.parametrize(
    ("around", "why"),
    [
        (Around(watching=[77]), "pid 77 watches queue/, as its worker would"),
        (Around(seen=False), "the processes of other users cannot be seen"),
        (Around(local=False), "nobody here watches queue/; another machine may"),
    ],
)
def test_a_claim_whose_worker_may_run_needs_force_and_the_number(jobs: LayoutWorld, around: Around, why: str) -> None:
    with opened(jobs.path, "job-queue", around) as control:
        plan = control.plan(Action.REQUEUE, ALL)
        [refusal] = plan.refused
        assert not plan.items and refusal.forceable and refusal.reason.startswith(why)
        forced = control.plan(Action.REQUEUE, ALL, force=True)
        assert forced.confirm is Confirm.NUMBER
        assert forced.items[0].row.verdict is Verdict.UNKNOWN and forced.items[0].row.evidence and forced.items[0].warning
        assert outcomes(control.apply(forced)) == [("done", "")]


def test_a_worker_that_starts_after_the_plan_keeps_its_claim(jobs: LayoutWorld) -> None:
    around = Around()
    with opened(jobs.path, "job-queue", around) as control:
        plan = control.plan(Action.REQUEUE, ALL)
        around.users["watching"] = (77,)
        [(outcome, why)] = outcomes(control.apply(plan))
    assert outcome == "skipped" and why.startswith("pid 77 watches queue/")
    assert (jobs.path / "processing/worker-1/slow-1.msg").exists()


@pytest.mark.parametrize(
    "member",
    [
        *({"changes": changes} for changes in (None, {}, [], "x", [5], [{"do": "move"}])),
        {"changes": [{"do": "move", "path": "a", "to": "../b"}]},
        *({"pins": pins} for pins in (None, [], {"a": [1, 2]}, {"a": [0, -1, 0]}, {"a": [0, 0, 1 << 64]}, {"../a": [0, 0, 0]})),
    ],
)
def test_a_record_that_is_forged_is_none(jobs: LayoutWorld, member: dict[str, object]) -> None:
    jobs.do(Action.HOLD, NEW)
    journal = jobs.path / ".spooltop/messages.jsonl"
    lines = [json.loads(line) for line in journal.read_text().replace("\0", "").splitlines()]
    forged = [{**line, "items": [{**line["items"][0], **member}]} if "items" in line else line for line in lines]
    journal.write_text("".join(json.dumps(line) + "\n" for line in forged))
    with jobs.control() as control:
        assert control.operations() == []


@pytest.mark.parametrize(
    "member", [{"tried": -1}, {"tried": None}, {"others": {"2": {"outcome": "done", "reason": ""}}}, {"others": {"x": {}}}]
)
def test_a_result_that_is_forged_leaves_its_batch_open(jobs: LayoutWorld, member: dict[str, object]) -> None:
    jobs.do(Action.HOLD, NEW)
    journal = jobs.path / ".spooltop/messages.jsonl"
    intent, result = (json.loads(line) for line in journal.read_text().replace("\0", "").splitlines())
    journal.write_text("".join(json.dumps(line) + "\n" for line in (intent, {**result, **member})))
    with jobs.control() as control:
        [record] = control.operations()
        assert record.open and record.count == 2
        undo = control.plan(Action.UNDO, Selection(), options={"undoes": record.operation})
        assert outcomes(control.apply(undo)) == [("done", "")] * 2


def test_a_result_of_more_messages_than_its_batch_has_counts_those_of_the_batch(jobs: LayoutWorld) -> None:
    jobs.do(Action.HOLD, NEW)
    journal = jobs.path / ".spooltop/messages.jsonl"
    intent, result = (json.loads(line) for line in journal.read_text().replace("\0", "").splitlines())
    journal.write_text("".join(json.dumps(line) + "\n" for line in (intent, {**result, "tried": (1 << 32) - 1})))
    with jobs.control() as control:
        assert [(record.count, record.done) for record in control.operations()] == [(2, 2)]


def test_a_batch_that_is_stopped_has_no_messages_that_were_not_reached(jobs: LayoutWorld) -> None:
    asked = iter((False, True))
    with jobs.control() as control:
        result = control.apply(control.plan(Action.HOLD, NEW), stop=lambda: next(asked, True))
        [record] = control.operations()
        undo = control.plan(Action.UNDO, Selection(), options={"undoes": record.operation})
    assert (outcomes(result), result.untried) == ([("done", "")], 1)
    assert (record.count, record.done, record.open, len(undo.items)) == (2, 1, False, 1)


def test_a_step_that_takes_long_ends_and_the_next_goes_on(jobs: LayoutWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = itertools.count(0.0, 2.0)
    monkeypatch.setitem(LayoutOperator.__init__.__kwdefaults__, "monotonic", lambda: next(seconds))
    with jobs.control() as control:
        result = control.apply(control.plan(Action.HOLD, NEW))
        [record] = control.operations()
        undo = control.plan(Action.UNDO, Selection(), options={"undoes": record.operation})
    lines = (jobs.path / ".spooltop/messages.jsonl").read_text().replace("\0", "").splitlines()
    steps = [(line["line"], line["first"], line.get("tried")) for line in map(json.loads, lines)]
    assert steps == [("intent", 0, None), ("result", 0, 1), ("intent", 1, None), ("result", 1, 1)]
    assert outcomes(result) == [("done", "")] * 2
    assert (record.count, record.done, record.open, len(undo.items)) == (2, 2, False, 2)


def test_a_note_is_written_again_after_a_message_that_failed(jobs: LayoutWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """The note went with the folder of the operation, in which nothing else was."""
    move, calls = Performer._move_file, itertools.count()

    def fails_once(performer: Performer, *args: Any) -> None:
        if next(calls) == 0:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        move(performer, *args)

    monkeypatch.setattr(Performer, "_move_file", fails_once)
    _, result = jobs.do(Action.HOLD, NEW)
    assert outcomes(result) == [("failed", os.strerror(errno.EIO)), ("done", "")]
    assert len([path for path in jobs.path.parent.rglob("*") if path.name == ".meta"]) == 1


SPOILT: list[dict[str, object]] = [{"user": 7}, {"user": None}, {"action": 7}, {"time": "now"}, {"time": 1e12}, {"time": -1}]


@pytest.mark.parametrize(
    "spoilt",
    [
        *(json.dumps({"action": "hold", "user": "ann", "time": 5.0, **spoilt}).encode() for spoilt in SPOILT),
        b'{"action":"hold","user":"\xff","time":5.0}', b"\xff", b"[" * 50_000, b"",
    ],
    ids=lambda spoilt: repr(spoilt[:60]),
)  # fmt: skip
def test_a_note_that_somebody_spoilt_says_nothing(jobs: LayoutWorld, spoilt: bytes) -> None:
    jobs.do(Action.HOLD, NEW)
    notes = [path for path in jobs.path.parent.rglob("*") if path.name == ".meta"]
    assert notes
    for note in notes:
        note.write_bytes(spoilt)
    with jobs.control() as control:
        assert [row.reason for row in rows_of(control, Box.HELD).values()] == ["", ""]


@pytest.mark.parametrize("layout", ["dirq-simple", "dirq-normal"])
def test_a_lock_that_its_program_took_after_the_plan_wins(memory: Path, layout: str) -> None:
    with LayoutWorld(memory, layout) as world, world.control() as control:
        plan = control.plan(Action.PURGE, NEW)
        element = world.path / plan.items[0].name
        os.link(element, f"{element}.lck") if layout == "dirq-simple" else (element / "locked").mkdir()
        assert outcomes(control.apply(plan)) == [("skipped", "changed since the list was made"), ("done", "")]
        assert element.exists()


def test_an_undo_of_a_requeue_that_unlocked_is_undone_as_often_as_wanted(memory: Path) -> None:
    with LayoutWorld(memory, "dirq-simple") as world:
        claimed = world.census()
        plan, _ = world.do(Action.REQUEUE, CUR, force=True)
        waiting = world.census()
        for number in range(4):
            plan, result = world.undo(plan.operation)
            assert result.count(Outcome.DONE) == plan.count == 1, (number, plan.refused, result)
            assert world.census() == (waiting if number % 2 else claimed) != (claimed if number % 2 else waiting)


@pytest.mark.parametrize("is_own", [False, True])
def test_who_holds_the_lock_is_waited_for_and_named(memory: Path, is_own: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lock of huey, and that of another operator."""
    set_default(monkeypatch, "patience", 0.2)
    with LayoutWorld(memory, "huey") as world, world.control() as control:
        plan = control.plan(Action.PURGE, NEW)
        path = world.path / (".spooltop/operate.lock" if is_own else ".lock")
        path.parent.mkdir(exist_ok=True)
        with path.open("wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if is_own:
                with pytest.raises(Refused, match="another spooltop has been changing this queue for 0 s"):
                    control.apply(plan)
            else:
                assert outcomes(control.apply(plan)) == [("skipped", ".lock has been locked by its program for 0 s")] * 3
        assert world.set_aside() == {}
        assert {outcome for outcome, _ in outcomes(control.apply(control.plan(Action.PURGE, NEW)))} == {"done"}


def test_a_worker_of_nullmailer_is_poked(memory: Path) -> None:
    with LayoutWorld(memory, "nullmailer") as world:
        listening = os.open(world.path / "trigger", os.O_RDONLY | os.O_NONBLOCK)
        try:
            world.do(Action.REQUEUE, Selection(box=Box.REJECTED, everything=True))
            assert os.read(listening, 9) == b"\0"
        finally:
            os.close(listening)
        assert (world.path / "queue/1795220921.78").exists()


def test_nothing_is_changed_through_a_link(jobs: LayoutWorld, tmp_path: Path) -> None:
    (tmp_path / "wait-1.state").write_text("queued:1")
    (jobs.path / "jobs").rename(jobs.path / "elsewhere")
    (jobs.path / "jobs").symlink_to(tmp_path)
    plan, _ = jobs.do(Action.PURGE, NEW)
    assert not plan.items and len(plan.refused) == 2
    (jobs.path / "own").mkdir()
    (jobs.path / ".spooltop").symlink_to(tmp_path)
    with pytest.raises(Refused, match=r"\.spooltop is not a directory; find out who created it"):
        jobs.do(Action.HOLD, NEW)
    assert os.listdir(tmp_path) == ["wait-1.state"] and (tmp_path / "wait-1.state").read_text() == "queued:1"


def test_nothing_is_done_in_a_directory_that_was_moved_meanwhile(jobs: LayoutWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its files may be the ones that were pinned; the queue's program does not look there."""
    jobs.do(Action.HOLD, NEW)
    run, calls = Performer.run, itertools.count()

    def then_moved(performer: Performer, *args: Any) -> None:
        run(performer, *args)
        if next(calls) == 0:
            (jobs.path / "queue").rename(jobs.path / "moved away")
            (jobs.path / "queue").mkdir()

    monkeypatch.setattr(Performer, "run", then_moved)
    _, result = jobs.do(Action.RELEASE, HELD)
    assert outcomes(result) == [("done", "")] * 2
    assert [len([*(jobs.path / folder).glob("*.msg")]) for folder in ("moved away", "queue")] == [1, 1]


def test_a_lock_without_its_element_is_stale_and_one_whose_element_came_back_is_not(memory: Path) -> None:
    with LayoutWorld(memory, "dirq-simple") as world, world.control() as control:
        element = world.path / "6b00e590/6b00e5b7c2149f"
        element.unlink()
        observation = control.look().observation
        assert [(lock.path, lock.kind, lock.verdict) for lock in observation.locks] == [(f"{element}.lck", "soft", "stale")]
        assert observation.findings == () and observation.capabilities.why_not(Action.UNLOCK) is None
        plan = control.plan(Action.UNLOCK, ALL)
        element.write_text("put again")
        assert outcomes(control.apply(plan)) == [("skipped", "6b00e590/6b00e5b7c2149f was made meanwhile")]
        assert control.plan(Action.UNLOCK, Selection(ids=("nothing",))).missing == ("nothing",)


def test_a_state_that_went_while_its_removal_was_planned_is_not_that_of_the_next_message(
    jobs: LayoutWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its program may put a message under that id before the plan is applied, with a state of its own."""
    message, state, see = jobs.path / "queue/000000000005-wait-1.msg", jobs.path / "jobs/wait-1.state", LayoutReader.see
    message.unlink()

    def program_is_quicker(reader: LayoutReader) -> None:
        see(reader)
        state.unlink()

    with jobs.control() as control:
        control.look()
        with monkeypatch.context() as patched:
            patched.setattr(LayoutReader, "see", program_is_quicker)
            plan = control.plan(Action.PURGE, Selection(ids=("wait-1",)))
        message.write_text("put again")
        state.write_text("queued:2")
        assert outcomes(control.apply(plan)) == [("skipped", "jobs/wait-1.state was made meanwhile")]
    assert state.exists()


@needs("root")
def test_a_user_who_may_not_write_is_told_why_and_by_whom_it_can_be_done() -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as above, LayoutWorld(above, "job-queue") as world:
        os.chmod(above, 0o755)
        with world.control() as control:
            try:
                os.seteuid(65534)
                why = control.look().observation.capabilities.why_not(Action.REQUEUE)
            finally:
                os.seteuid(0)
        assert why == f"you are nobody, its directory belongs to root 0755. Try: sudo -u root spooltop {world.path}"


def test_a_job_that_a_worker_drops_during_its_purge_leaves_no_state_that_refuses_its_id(
    jobs: LayoutWorld, before_call: Interpose
) -> None:
    """A worker of job-queue drops a message that has no state."""
    message = jobs.path / "queue/000000000005-wait-1.msg"
    before_call("move", lambda *_: message.unlink(), message.name)
    _, result = jobs.do(Action.PURGE, Selection(ids=("wait-1",)))
    assert outcomes(result)[0][0] == "skipped"
    assert not message.exists() and not (jobs.path / "jobs/wait-1.state").exists()
    assert [name.rpartition("/")[2] for name in jobs.set_aside()] == ["wait-1.state"]


def test_a_rate_is_kept_between_two_messages(jobs: LayoutWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr(LayoutOperator, "_wait", waits.append)
    _, result = jobs.do(Action.PURGE, NEW, rate=5.0)
    assert (outcomes(result), waits) == ([("done", "")] * 2, [0.2])
