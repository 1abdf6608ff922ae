"""Operations on queues of other programs: what each layout needs besides the steps, which the matrix and the machines walk."""

from __future__ import annotations

import fcntl
import json
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from spooltop.backends.layouts.definition.library import SHIPPED, read_layout
from spooltop.errors import Refused
from spooltop.model.filters.selection import Selection
from spooltop.model.operations.plan import Confirm, Outcome, Plan
from spooltop.model.protocols import ListQuery
from spooltop.model.row import Row
from spooltop.model.vocabulary import Action, Box, Verdict
from spooltop.operate.effect import effect_of
from tests.backends.conftest import Interpose
from tests.backends.layouts.queues import ACTIONS, operations, outcomes
from tests.backends.layouts.test_reader import Around
from tests.builders import ALL, LAYOUTS, LayoutWorld
from tests.needs import needs

NEW, CUR, HELD = (Selection(box=box, everything=True) for box in (Box.NEW, Box.CUR, Box.HELD))


@pytest.fixture
def jobs(memory: Path) -> Iterator[LayoutWorld]:
    with LayoutWorld(memory, "job-queue") as world:
        yield world


def rows(world: LayoutWorld, box: Box) -> list[Row]:
    with world.control() as control:
        control.look()
        return list(control.listing(ListQuery(box)).window(0, 99))


def test_every_action_of_every_layout_that_ships_is_tried() -> None:
    """By the matrix, which kills it or lets it fail at each of its calls."""
    layouts = {name.removesuffix(".toml"): read_layout(os.path.join(SHIPPED, name)) for name in os.listdir(SHIPPED)}
    known = {
        (name, action.name, box, action.force) for name, layout in layouts.items() for action in layout.actions
        for box in action.boxes
    }  # fmt: skip
    assert {(layout, action.value, box.value, force) for layout, action, box, force in ACTIONS} == known
    assert {name for name, layout in layouts.items() if layout.actions} == LAYOUTS.keys()


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


@pytest.mark.parametrize("layout", sorted(name for name, action, _, _ in ACTIONS if action is Action.HOLD))
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
    with jobs.control(clock=lambda: 1795220990.5) as control:
        plan = control.plan(Action.REQUEUE, ALL, force=True)
        assert [item.id for item in plan.items] == ["slow-1"] and any("comes back for ever" in note for note in plan.notes)
        assert effect_of(plan) == "It moves to the end of the queue, with the same id."
        assert [one.became for one in control.apply(plan).items] == ["queue/000000000006-slow-1.msg"]
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
    ops = operations(jobs.path, "job-queue", around)
    plan = ops.plan(Action.REQUEUE, ALL)
    [refusal] = plan.refused
    assert not plan.items and refusal.forceable and refusal.reason.startswith(why)
    forced = ops.plan(Action.REQUEUE, ALL, force=True)
    assert forced.confirm is Confirm.NUMBER
    assert forced.items[0].row.verdict is Verdict.UNKNOWN and forced.items[0].row.evidence and forced.items[0].warning
    assert outcomes(ops.apply(forced)) == [("done", "")]


def test_a_worker_that_starts_after_the_plan_keeps_its_claim(jobs: LayoutWorld) -> None:
    around = Around()
    ops = operations(jobs.path, "job-queue", around)
    plan = ops.plan(Action.REQUEUE, ALL)
    assert plan.confirm is Confirm.SMALL
    around.users["watching"] = (77,)
    [(outcome, why)] = outcomes(ops.apply(plan))
    assert outcome == "skipped" and why.startswith("pid 77 watches queue/")
    assert (jobs.path / "processing/worker-1/slow-1.msg").exists()


@pytest.mark.parametrize("changes", [None, {}, [], "x", [5], [{"do": "move"}], [{"do": "move", "path": "a", "to": "../b"}]])
def test_a_record_whose_changes_are_forged_is_none(jobs: LayoutWorld, changes: object) -> None:
    jobs.do(Action.HOLD, NEW)
    journal = jobs.path / ".spooltop/messages.jsonl"
    lines = [json.loads(line) for line in journal.read_text().replace("\0", "").splitlines()]
    forged = [{**line, "changes": changes} if "changes" in line else line for line in lines]
    journal.write_text("".join(json.dumps(line) + "\n" for line in forged))
    with jobs.control() as control:
        assert control.operations() == []


@pytest.mark.parametrize("spoilt", [{"user": 7}, {"user": None}, {"action": 7}, {"time": "now"}, {"time": 1e12}, {"time": -1}])
def test_a_note_that_somebody_spoilt_says_nothing(jobs: LayoutWorld, spoilt: dict[str, object]) -> None:
    jobs.do(Action.HOLD, NEW)
    notes = [path for path in jobs.path.parent.rglob("*") if path.name == ".meta"]
    assert notes
    for note in notes:
        note.write_text(json.dumps({"action": "hold", "user": "ann", "time": 5.0, **spoilt}))
    assert [row.reason for row in rows(jobs, Box.HELD)] == ["", ""]


@pytest.mark.parametrize("layout", ["dirq-simple", "dirq-normal"])
def test_a_lock_that_its_program_took_after_the_plan_wins(memory: Path, layout: str) -> None:
    with LayoutWorld(memory, layout) as world, world.control() as control:
        plan = control.plan(Action.PURGE, NEW)
        element = world.path / plan.items[0].name
        os.link(element, f"{element}.lck") if layout == "dirq-simple" else (element / "locked").mkdir()
        assert outcomes(control.apply(plan)) == [("skipped", "changed since the list was made"), ("done", "")]
        assert element.exists()


def test_a_message_with_the_same_id_keeps_a_claim_from_going_back(jobs: LayoutWorld) -> None:
    jobs.write("queue/000000000009-slow-1.msg", "{}")
    plan, _ = jobs.do(Action.REQUEUE, force=True)
    assert [one.reason for one in plan.refused] == ["conflict: another message with this id waits; both are kept"]


def test_held_messages_are_listed_released_and_purged(jobs: LayoutWorld) -> None:
    before = jobs.tree()
    jobs.do(Action.HOLD, NEW)
    with jobs.control() as control:
        observation = control.look().observation
        held = list(control.listing(ListQuery(Box.HELD)).window(0, 9))
        payload = control.read(held[0].key, 5)
    assert observation.boxes[Box.HELD].count == 2 and observation.findings == ()
    assert [(row.id, row.reason.startswith("hold by "), row.since_is_bound) for row in sorted(held, key=lambda row: row.id)] == [
        ("retry-1", True, False), ("wait-1", True, False),
    ]  # fmt: skip
    assert payload.data == b'{"id"' and dict(payload.facts)["file"].startswith(".spooltop/held/")
    plan, result = jobs.do(Action.REQUEUE, Selection(ids=("retry-1",), box=Box.HELD))
    assert outcomes(result) == outcomes(jobs.undo(plan.operation)[1]) == [("done", "")]
    jobs.do(Action.RELEASE, Selection(ids=("retry-1",)))
    jobs.do(Action.PURGE, Selection(ids=("wait-1",), box=Box.HELD))
    assert not (jobs.path / "jobs/wait-1.state").exists() and len(jobs.set_aside()) == 2
    assert all(name.startswith("trash/") for name in jobs.set_aside())
    jobs.do(Action.RESTORE, Selection(ids=("wait-1",)))
    assert jobs.tree() == before and jobs.set_aside() == {}


@pytest.mark.parametrize(
    ("layout", "action", "box"), [("job-queue", Action.PURGE, Box.NEW), ("dirq-simple", Action.REQUEUE, Box.CUR)]
)
def test_an_undo_lists_what_it_brings_back_with_age_and_size(memory: Path, layout: str, action: Action, box: Box) -> None:
    def facts(plan: Plan) -> dict[str, tuple[float | None, int | None]]:
        return {item.id: (item.row.enqueued_at, item.row.size) for item in plan.items}

    with LayoutWorld(memory, layout) as world:
        plan, _ = world.do(action, Selection(box=box, everything=True), force=True)
        undo, _ = world.undo(plan.operation)
    assert facts(plan) == facts(undo) != {} and all(at is not None for at, _ in facts(undo).values())


def test_an_undo_of_a_requeue_that_unlocked_is_undone_as_often_as_wanted(memory: Path) -> None:
    with LayoutWorld(memory, "dirq-simple") as world:
        claimed = world.census()
        plan, _ = world.do(Action.REQUEUE, CUR, force=True)
        waiting = world.census()
        for number in range(4):
            plan, result = world.undo(plan.operation)
            assert result.count(Outcome.DONE) == plan.count == 1, (number, plan.refused, result)
            assert world.census() == (waiting if number % 2 else claimed) != (claimed if number % 2 else waiting)


def test_what_was_deleted_cannot_be_undone(jobs: LayoutWorld) -> None:
    purged, _ = jobs.do(Action.PURGE, Selection(ids=("wait-1",)))
    _, emptied = jobs.do(Action.EMPTY)
    _, at_once = jobs.do(Action.PURGE, NEW, now=True)
    assert outcomes(emptied) == outcomes(at_once) == [("done", "")] and emptied.undo == at_once.undo == ()
    assert jobs.set_aside() == {} and not list((jobs.path / "queue").glob("*.msg"))
    with jobs.control() as control:
        assert [record.why_not_undo for record in control.operations()[:2]] == ["deleted permanently"] * 2
    undo, _ = jobs.undo(purged.operation)
    assert (undo.count, len(undo.refused)) == (0, 1)


@pytest.mark.parametrize("is_own", [False, True])
def test_who_holds_the_lock_is_waited_for_and_named(memory: Path, is_own: bool) -> None:
    """The lock of huey, and that of another operator."""
    with LayoutWorld(memory, "huey") as world:
        ops = operations(world.path, "huey", patience=0.2)
        plan = ops.plan(Action.PURGE, NEW)
        path = world.path / (".spooltop/operate.lock" if is_own else ".lock")
        path.parent.mkdir(exist_ok=True)
        with path.open("wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if is_own:
                with pytest.raises(Refused, match="another spooltop has been changing this queue for 0 s"):
                    ops.apply(plan)
            else:
                assert outcomes(ops.apply(plan)) == [("skipped", ".lock has been locked by its program for 0 s")] * 3
        assert world.set_aside() == {}
        assert {outcome for outcome, _ in outcomes(ops.apply(ops.plan(Action.PURGE, NEW)))} == {"done"}


def test_a_worker_of_nullmailer_is_poked_and_may_have_begun_to_send(memory: Path) -> None:
    with LayoutWorld(memory, "nullmailer") as world:
        listening = os.open(world.path / "trigger", os.O_RDONLY | os.O_NONBLOCK)
        try:
            world.do(Action.REQUEUE, Selection(box=Box.REJECTED, everything=True))
            assert os.read(listening, 9) == b"\0"
        finally:
            os.close(listening)
        assert (world.path / "queue/1795220921.78").exists()
        plan, _ = world.do(Action.PURGE, NEW)
        assert "nullmailer-send has begun to send" in " ".join(plan.notes)


def test_nothing_is_changed_through_a_link(jobs: LayoutWorld, tmp_path: Path) -> None:
    (tmp_path / "wait-1.state").write_text("queued:1")
    (jobs.path / "jobs").rename(jobs.path / "elsewhere")
    (jobs.path / "jobs").symlink_to(tmp_path)
    plan, _ = jobs.do(Action.PURGE, NEW)
    assert not plan.items and len(plan.refused) == 2
    (jobs.path / ".spooltop").rename(jobs.path / "own")
    (jobs.path / ".spooltop").symlink_to(tmp_path)
    with pytest.raises(Refused, match=r"\.spooltop is not a directory; find out who created it"):
        jobs.do(Action.HOLD, NEW)
    assert os.listdir(tmp_path) == ["wait-1.state"] and (tmp_path / "wait-1.state").read_text() == "queued:1"


def test_the_state_of_a_lost_job_is_purged_and_comes_back(jobs: LayoutWorld) -> None:
    state = jobs.write("jobs/gone-1.state", "queued:1795220920720")
    os.utime(state, (1, 1))
    plan, _ = jobs.do(Action.PURGE, Selection(ids=("gone-1", "nobody")))
    assert [(item.id, item.warning) for item in plan.items] == [
        ("gone-1", "only jobs/gone-1.state is left of it, which moves to the trash")
    ]
    assert plan.missing == ("nobody",) and not state.exists()
    jobs.undo(plan.operation)
    assert state.read_text() == "queued:1795220920720"


def test_a_lock_without_its_element_is_removed_and_one_whose_element_came_back_is_not(memory: Path) -> None:
    with LayoutWorld(memory, "dirq-simple") as world:
        element = world.path / "6b00e590/6b00e5b7c2149f"
        element.unlink()
        with world.control() as control:
            observation = control.look().observation
            assert [(lock.path, lock.kind, lock.verdict) for lock in observation.locks] == [(f"{element}.lck", "soft", "stale")]
            assert observation.findings == () and observation.capabilities.why_not(Action.UNLOCK) is None
            plan, late = control.plan(Action.UNLOCK, Selection(ids=(f"{element}.lck",))), control.plan(Action.UNLOCK, ALL)
            assert plan.items[0].words.startswith("6b00e590/6b00e5b7c2149f.lck: a lock without its element")
            assert outcomes(control.apply(plan)) == [("done", "")] and not Path(f"{element}.lck").exists()
            control.apply(control.plan(Action.UNDO, Selection(), options={"undoes": plan.operation}))
            assert Path(f"{element}.lck").exists()
            again = control.plan(Action.UNLOCK, ALL)
            element.write_text("put again")
            assert outcomes(control.apply(again)) == [("skipped", "6b00e590/6b00e5b7c2149f was made meanwhile")]
            assert outcomes(control.apply(late))[0][0] == "skipped"
            assert control.plan(Action.UNLOCK, Selection(ids=("nothing",))).missing == ("nothing",)


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


def test_two_operators_in_two_processes_do_each_message_once(jobs: LayoutWorld, memory: Path) -> None:
    for number in range(10, 40):
        jobs.write(f"queue/{number:012}-many-{number}.msg", "{}")
        jobs.write(f"jobs/many-{number}.state", "queued:1795220920720")
    children = []
    with jobs.control() as one, jobs.control() as other:
        plans = [(control, control.plan(Action.PURGE, NEW)) for control in (one, other)]
        for place, (control, plan) in enumerate(plans):
            pid = os.fork()
            if pid == 0:
                code = 1
                try:
                    result = control.apply(plan)
                    (memory / f"told-{place}").write_text(json.dumps({one.id: one.outcome.value for one in result.items}))
                    code = 0
                finally:
                    os._exit(code)
            children.append(pid)
        assert [os.waitpid(pid, 0)[1] for pid in children] == [0, 0]
    first, second = (json.loads((memory / f"told-{place}").read_text()) for place in range(2))
    assert first.keys() == second.keys() and len(first) == 32
    assert all(sorted((first[id], second[id])) == ["done", "skipped"] for id in first)
    assert len(jobs.set_aside()) == 64 and not list((jobs.path / "queue").glob("*.msg"))


def test_a_rate_is_kept_between_two_messages(jobs: LayoutWorld) -> None:
    waits: list[float] = []
    changing = operations(jobs.path, "job-queue", wait=waits.append)
    ids = tuple(row.id for row in rows(jobs, Box.NEW)[:2])
    result = changing.apply(changing.plan(Action.PURGE, Selection(ids=ids, box=Box.NEW), options={"rate": 20.0}))
    assert (outcomes(result), waits) == ([("done", "")] * 2, [0.05])
