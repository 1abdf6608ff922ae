"""Operations on queues of other programs: each does what its layout says, once, and undo reverses it."""

from __future__ import annotations

import fcntl
import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from spooltop.backends.journal.log_files import LogFiles
from spooltop.backends.layouts.definition.library import SHIPPED, read_layout
from spooltop.backends.layouts.operator.changes import FileChange, Verb, decode_changes
from spooltop.backends.layouts.queue_dirs import ASIDE
from spooltop.backends.layouts.reader import LayoutReader
from spooltop.errors import Refused
from spooltop.model.filters.selection import Selection
from spooltop.model.operations.plan import Confirm
from spooltop.model.protocols import ListQuery
from spooltop.model.vocabulary import Action, Box, Verdict
from spooltop.operate.effect import effect_of
from tests.backends.layouts.queues import ACTIONS, aside, contents, operations, operator, outcomes, planned, undone
from tests.backends.layouts.test_reader import Around, reader
from tests.builders import LAYOUTS

NAMES = [f"{layout} {action} {box}" for layout, action, box, _ in ACTIONS]


def test_every_action_of_every_layout_that_ships_is_tried() -> None:
    """Here, and killed or failing at each of its calls in ``test_crash``."""
    layouts = {name.removesuffix(".toml"): read_layout(os.path.join(SHIPPED, name)) for name in os.listdir(SHIPPED)}
    known = {
        (name, one.name, box, one.force) for name, layout in layouts.items() for one in layout.actions for box in one.boxes
    }
    assert {(layout, action.value, box.value, force) for layout, action, box, force in ACTIONS} == known
    assert {name for name, layout in layouts.items() if layout.actions} == LAYOUTS.keys()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_action_is_offered_for_a_box_exactly_where_it_is_not_refused(memory: Path, layout: str) -> None:
    LAYOUTS[layout](memory / "queue")
    ops, able = operations(memory / "queue", layout), operator(memory / "queue", layout).capabilities()
    from_boxes = (Action.PURGE, Action.HOLD, Action.RELEASE, Action.RESTORE, Action.EMPTY)
    for action in (one for one in from_boxes if able.why_not(one) is None):
        for box in Box:
            try:
                planned(ops, action, box=box)
            except Refused as refused:
                assert f"{action} is not possible for messages in {box}" in str(refused)
                assert able.why_not_from(action, box), (action, box)
            else:
                assert able.why_not_from(action, box) is None, (action, box)


@pytest.mark.parametrize("layout", sorted(name for name, action, _, _ in ACTIONS if action is Action.HOLD))
def test_an_age_means_the_same_in_the_column_the_filter_the_selection_and_the_board(memory: Path, layout: str) -> None:
    queue, now = memory / "queue", time.time() + 7 * 86400  # later than each put: the library wrote some
    LAYOUTS[layout](queue)
    look = LayoutReader(str(queue), read_layout(os.path.join(SHIPPED, f"{layout}.toml")), Around(), clock=lambda: now)
    state = look.see().boxes[Box.NEW]
    rows = look.listing(ListQuery(Box.NEW)).window(0, 9)
    ages = {row.id: row.in_box_age(now) for row in rows}
    look.close()
    assert ages and state.oldest_at is not None
    oldest = max(age for age in ages.values() if age is not None)
    assert now - state.oldest_at == oldest
    ops = operations(queue, layout, now=now)
    for seconds in (int(oldest), int(oldest) + 1):
        older = {id for id, age in ages.items() if age is not None and age >= seconds}
        chosen = Selection(box=Box.NEW, filter=f"age:>={seconds}s"), Selection(box=Box.NEW, older_than=seconds)
        assert [{item.row.id for item in ops.plan(Action.HOLD, one).items} for one in chosen] == [older, older]
    assert not older


@pytest.mark.parametrize(("layout", "action", "box", "force"), ACTIONS, ids=NAMES)
def test_an_operation_is_done_once_and_undone(memory: Path, layout: str, action: Action, box: Box, force: bool) -> None:
    queue = memory / "queue"
    LAYOUTS[layout](queue)
    before = contents(queue)
    ops = operations(queue, layout)
    plan = planned(ops, action, box=box, force=force)
    again = planned(ops, action, box=box, force=force)
    assert plan.items and not plan.refused
    result = ops.apply(plan)
    assert {outcome for outcome, _ in outcomes(result)} == {"done"}
    assert contents(queue) != before
    assert {outcome for outcome, _ in outcomes(ops.apply(again))} == {"skipped"}
    after = contents(queue)
    assert {outcome for outcome, _ in outcomes(undone(ops, result))} == {"done"}
    assert contents(queue) == before
    assert aside(queue) == {}
    (undo, _, did) = ops.records()[:3]
    assert (did.undone_by, undo.done) == (undo.operation, len(plan.items))
    assert {outcome for outcome, _ in outcomes(undone(ops, ops.apply(planned(ops, action, box=box, force=force))))} == {"done"}
    undo_again = ops.plan(Action.UNDO, Selection(), options={"undoes": undo.operation})
    assert {outcome for outcome, _ in outcomes(ops.apply(undo_again))} == {"done"}
    if action is not Action.REQUEUE or layout != "job-queue":  # whose state has the time
        assert contents(queue) == after


def test_a_dead_claim_of_a_job_queue_waits_again_behind_the_others(memory: Path) -> None:
    queue = memory / "queue"
    LAYOUTS["job-queue"](queue)
    ops = operations(queue, "job-queue", now=1795220990.5)
    plan = planned(ops, Action.REQUEUE)
    assert [item.id for item in plan.items] == ["slow-1"]
    assert plan.confirm is Confirm.SMALL
    assert any("comes back for ever" in note for note in plan.notes)
    assert effect_of(plan) == "It moves to the end of the queue, with the same id."
    ops.apply(plan)
    assert (queue / "queue/000000000006-slow-1.msg").exists()
    assert not (queue / "processing/worker-1/slow-1.msg").exists()
    assert (queue / "jobs/slow-1.state").read_text() == "queued:1795220990500"


@pytest.mark.parametrize(
    ("around", "why"),
    [
        (Around(watching=[77]), "pid 77 watches queue/, as its worker would"),
        (Around(seen=False), "the processes of other users cannot be seen"),
        (Around(local=False), "nobody here watches queue/; another machine may"),
    ],
)
def test_a_claim_whose_worker_may_run_needs_force_and_the_number(memory: Path, around: Around, why: str) -> None:
    queue = memory / "queue"
    LAYOUTS["job-queue"](queue)
    ops = operations(queue, "job-queue", around=around)
    plan = planned(ops, Action.REQUEUE)
    (refusal,) = plan.refused
    assert not plan.items and refusal.forceable and refusal.reason.startswith(why)
    forced = planned(ops, Action.REQUEUE, force=True)
    assert forced.confirm is Confirm.NUMBER
    assert outcomes(ops.apply(forced)) == [("done", "")]


@pytest.mark.parametrize("value", [None, {}, [], "x", [5], [{"do": "move"}], [{"do": "move", "path": "a", "to": "../b"}]])
def test_what_is_no_list_of_changes_is_none(value: object) -> None:
    with pytest.raises(ValueError, match=r"change|path|None"):
        decode_changes(value)


@pytest.mark.parametrize(
    ("layout", "action", "box", "force", "verdict"),
    [
        ("kombu", Action.REQUEUE, Box.DELIVERED, True, Verdict.UNKNOWN),
        ("job-queue", Action.REQUEUE, Box.CUR, True, Verdict.UNKNOWN),
        ("kombu", Action.HOLD, Box.NEW, False, None), ("job-queue", Action.PURGE, Box.NEW, False, None),
    ],
)  # fmt: skip
def test_what_only_force_moves_has_an_unknown_holder(
    memory: Path, layout: str, action: Action, box: Box, force: bool, verdict: Verdict | None
) -> None:
    queue = memory / "queue"
    LAYOUTS[layout](queue)
    items = planned(operations(queue, layout, around=Around(seen=False)), action, box=box, force=force).items
    assert items
    for item in items:
        assert item.row.verdict is verdict
        assert bool(item.row.evidence) is bool(item.warning) is (verdict is not None)


@pytest.mark.parametrize(
    ("change", "aside", "back"),
    [
        (FileChange(Verb.MOVE, "queue/a", f"{ASIDE}held/op/a"), True, False),
        (FileChange(Verb.MOVE, f"{ASIDE}held/op/a", "queue/a"), False, True),
        (FileChange(Verb.MOVE, f"{ASIDE}held/op/a", f"{ASIDE}trash/op/a"), False, False),
        (FileChange(Verb.MOVE, "queue/a", "queue/b"), False, False),
        (FileChange(Verb.LINK, "queue/a", f"{ASIDE}held/op/a"), False, False),
    ],
)
def test_only_a_move_sets_aside_or_brings_back(change: FileChange, aside: bool, back: bool) -> None:
    assert (change.sets_aside, change.brings_back) == (aside, back)


@pytest.mark.parametrize("spoilt", [{"user": 7}, {"user": None}, {"action": 7}, {"time": "now"}, {"time": 1e12}, {"time": -1}])
def test_a_note_that_somebody_spoilt_says_nothing(memory: Path, spoilt: dict[str, object]) -> None:
    queue = memory / "queue"
    LAYOUTS["job-queue"](queue)
    operations(queue, "job-queue", now=1795220990.0).apply(planned(operations(queue, "job-queue"), Action.HOLD, box=Box.NEW))
    notes = [path for path in queue.parent.rglob("*") if path.name == ".meta"]
    assert notes
    for note in notes:
        note.write_text(json.dumps({"action": "hold", "user": "ann", "time": 5.0, **spoilt}))
    look = reader(queue, "job-queue")
    look.see()
    rows = look.listing(ListQuery(Box.HELD)).window(0, 9)
    assert {row.reason for row in rows} == {""} and len(rows) == 2
    look.close()


def test_a_worker_that_starts_after_the_plan_keeps_its_claim(memory: Path) -> None:
    queue = memory / "queue"
    LAYOUTS["job-queue"](queue)
    around = Around()
    ops = operations(queue, "job-queue", around=around)
    plan = planned(ops, Action.REQUEUE)
    around.users["watching"] = (77,)
    ((outcome, why),) = outcomes(ops.apply(plan))
    assert outcome == "skipped" and why.startswith("pid 77 watches queue/")
    assert (queue / "processing/worker-1/slow-1.msg").exists()


def test_a_lock_that_its_program_took_after_the_plan_wins(memory: Path) -> None:
    for layout in ("dirq-simple", "dirq-normal"):
        queue = memory / layout
        LAYOUTS[layout](queue)
        ops = operations(queue, layout)
        plan = planned(ops, Action.PURGE, box=Box.NEW)
        element = queue / plan.items[0].name
        if layout == "dirq-simple":
            os.link(element, f"{element}.lck")
        else:
            (element / "locked").mkdir()
        (first, why), (second, _) = outcomes(ops.apply(plan))
        assert (first, second) == ("skipped", "done") and why == "changed since the list was made"
        assert element.exists()


def test_a_message_with_the_same_id_keeps_a_claim_from_going_back(memory: Path) -> None:
    queue = memory / "queue"
    LAYOUTS["job-queue"](queue)
    (queue / "queue/000000000009-slow-1.msg").write_text("{}")
    plan = planned(operations(queue, "job-queue"), Action.REQUEUE)
    assert [one.reason for one in plan.refused] == ["conflict: another message with this id waits; both are kept"]


def test_held_messages_are_listed_released_and_purged(memory: Path) -> None:
    queue = memory / "queue"
    LAYOUTS["job-queue"](queue)
    before = contents(queue)
    ops = operations(queue, "job-queue", now=1795220990.0)
    ops.apply(planned(ops, Action.HOLD, box=Box.NEW))
    look = reader(queue, "job-queue")
    found = look.see()
    rows = look.listing(ListQuery(Box.HELD)).window(0, 9)
    assert found.boxes[Box.HELD].count == 2 and found.findings == ()
    assert {(row.id, row.reason, row.in_box_since) for row in rows} == {
        ("retry-1", "hold by ann", 1795220990.0), ("wait-1", "hold by ann", 1795220990.0),
    }  # fmt: skip
    payload = look.read(rows[0].key, 5)
    assert payload.data == b'{"id"' and dict(payload.facts)["file"].startswith(".spooltop/held/")
    look.close()
    assert not any(row.since_is_bound for row in rows)
    requeued = ops.apply(ops.plan(Action.REQUEUE, Selection(ids=("retry-1",), box=Box.HELD)))
    assert outcomes(requeued) == [("done", "")] and outcomes(undone(ops, requeued)) == [("done", "")]
    ops.apply(ops.plan(Action.RELEASE, Selection(ids=("retry-1",))))
    held = ops.apply(ops.plan(Action.PURGE, Selection(ids=("wait-1",), box=Box.HELD)))
    assert outcomes(held) == [("done", "")]
    assert not (queue / "jobs/wait-1.state").exists() and len(aside(queue)) == 2
    assert all(name.startswith("trash/") for name in aside(queue))
    ops.apply(ops.plan(Action.RESTORE, Selection(ids=("wait-1",))))
    assert contents(queue) == before and aside(queue) == {}


def test_an_undo_lists_what_it_brings_back_with_age_and_size(memory: Path) -> None:
    for layout, action, box in (("job-queue", Action.PURGE, Box.NEW), ("dirq-simple", Action.REQUEUE, Box.CUR)):
        queue = memory / layout
        LAYOUTS[layout](queue)
        ops = operations(queue, layout)
        result = ops.apply(plan := planned(ops, action, box=box, force=True))
        undo = ops.plan(Action.UNDO, Selection(), options={"undoes": result.operation})
        assert undo.items and {item.id: (item.row.enqueued_at, item.row.size) for item in undo.items} == {
            item.id: (item.row.enqueued_at, item.row.size) for item in plan.items
        }
        assert all(item.row.enqueued_at is not None for item in undo.items)


def test_what_waits_is_selected_by_the_time_since_its_put(memory: Path) -> None:
    queue = memory / "queue"
    LAYOUTS["job-queue"](queue)
    ops = operations(queue, "job-queue", now=1795220920.8 + 3600)
    for seconds, ids in ((3600.0, {"retry-1", "wait-1"}), (3700.0, set())):
        plan = ops.plan(Action.PURGE, Selection(box=Box.NEW, older_than=seconds))
        assert {item.id for item in plan.items} == ids


def test_emptying_the_trash_deletes_for_good(memory: Path) -> None:
    for layout in ("job-queue", "dirq-normal"):
        queue = memory / layout
        LAYOUTS[layout](queue)
        ops = operations(queue, layout)
        purge = ops.apply(planned(ops, Action.PURGE, box=Box.NEW))
        plan = planned(ops, Action.EMPTY)
        assert len(plan.items) == 2
        result = ops.apply(plan)
        assert {outcome for outcome, _ in outcomes(result)} == {"done"} and result.undo == ()
        assert aside(queue) == {}
        assert ops.records()[0].why_not_undo == "deleted permanently"
        undo = ops.plan(Action.UNDO, Selection(), options={"undoes": purge.operation})
        assert not undo.items and len(undo.refused) == 2


def test_a_purge_without_the_trash_deletes_at_once(memory: Path) -> None:
    queue = memory / "queue"
    LAYOUTS["job-queue"](queue)
    ops = operations(queue, "job-queue")
    assert outcomes(ops.apply(planned(ops, Action.PURGE, box=Box.NEW, now=True))) == [("done", "")] * 2
    assert aside(queue) == {} and not list((queue / "queue").glob("*.msg"))
    assert not (queue / "jobs/wait-1.state").exists()


def test_the_journal_says_each_change_before_it_is_made(memory: Path) -> None:
    queue = memory / "queue"
    LAYOUTS["job-queue"](queue)
    ops = operations(queue, "job-queue")
    result = ops.apply(planned(ops, Action.REQUEUE))
    intent, outcome = map(json.loads, (queue / ".spooltop/messages.jsonl").read_text().splitlines())
    assert [(change["do"], change["path"]) for change in intent["changes"]] == [
        ("write", "jobs/slow-1.state"), ("move", "processing/worker-1/slow-1.msg"),
    ]  # fmt: skip
    assert intent["changes"][0]["before"] == "processing:1795220920741:worker-1"
    assert (outcome["operation"], outcome["outcome"]) == (result.operation, "done")


def test_a_lock_of_huey_that_is_held_refuses_the_change(memory: Path) -> None:
    queue = memory / "queue"
    LAYOUTS["huey"](queue)
    ops = operations(queue, "huey", patience=0.2)
    plan = planned(ops, Action.PURGE, box=Box.NEW)
    with (queue / ".lock").open("rb+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        found = outcomes(ops.apply(plan))
    assert found == [("skipped", ".lock has been locked by its program for 0 s")] * 3
    assert {outcome for outcome, _ in outcomes(ops.apply(planned(ops, Action.PURGE, box=Box.NEW)))} == {"done"}


def test_another_operator_that_is_at_work_is_waited_for_and_named(memory: Path) -> None:
    queue = memory / "queue"
    LAYOUTS["job-queue"](queue)
    ops = operations(queue, "job-queue", patience=0.2)
    plan = planned(ops, Action.REQUEUE)
    (queue / ".spooltop").mkdir()
    with (queue / ".spooltop/operate.lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(Refused, match="another spooltop has been changing this queue for 0 s"):
            ops.apply(plan)
    assert (queue / "processing/worker-1/slow-1.msg").exists()


def test_a_worker_of_nullmailer_is_poked(memory: Path) -> None:
    queue = memory / "queue"
    LAYOUTS["nullmailer"](queue)
    ops = operations(queue, "nullmailer")
    listening = os.open(queue / "trigger", os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert outcomes(ops.apply(planned(ops, Action.REQUEUE, box=Box.REJECTED))) == [("done", "")]
        assert os.read(listening, 9) == b"\0"
    finally:
        os.close(listening)
    assert (queue / "queue/1795220921.78").exists()


def test_a_message_of_nullmailer_is_purged_and_comes_back(memory: Path) -> None:
    queue = memory / "queue"
    LAYOUTS["nullmailer"](queue)
    ops = operations(queue, "nullmailer")
    for box, name in ((Box.NEW, "queue/1795220920.77"), (Box.REJECTED, "failed/1795220921.78")):
        plan = planned(ops, Action.PURGE, box=box)
        assert ("nullmailer-send has begun to send" in " ".join(plan.notes)) is (box is Box.NEW)
        done = ops.apply(plan)
        assert outcomes(done) == [("done", "")] and not (queue / name).exists()
        assert outcomes(ops.apply(ops.plan(Action.UNDO, Selection(), options={"undoes": done.operation}))) == [("done", "")]
        assert (queue / name).exists()


def test_nothing_is_changed_through_a_link(memory: Path) -> None:
    queue, secret = memory / "queue", memory / "secret"
    LAYOUTS["job-queue"](queue)
    secret.mkdir()
    (secret / "wait-1.state").write_text("queued:1")
    for state in (queue / "jobs").iterdir():
        state.unlink()
    (queue / "jobs").rmdir()
    (queue / "jobs").symlink_to(secret)
    ops = operations(queue, "job-queue")
    plan = planned(ops, Action.PURGE, box=Box.NEW)
    assert not plan.items and len(plan.refused) == 2
    assert (secret / "wait-1.state").read_text() == "queued:1"


def test_the_state_of_a_lost_job_is_purged_and_comes_back(memory: Path) -> None:
    queue = memory / "queue"
    LAYOUTS["job-queue"](queue)
    state = queue / "jobs/gone-1.state"
    state.write_text("queued:1795220920720")
    os.utime(state, (1, 1))
    ops = operations(queue, "job-queue")
    plan = ops.plan(Action.PURGE, Selection(ids=("gone-1", "nobody")))
    assert [(item.id, item.warning) for item in plan.items] == [
        ("gone-1", "only jobs/gone-1.state is left of it, which moves to the trash")
    ]
    assert plan.missing == ("nobody",)
    result = ops.apply(plan)
    assert ("done", "") in outcomes(result) and not state.exists()
    undone(ops, result)
    assert state.read_text() == "queued:1795220920720"
    assert not ops.plan(Action.PURGE, Selection(ids=("wait-2",))).items


def test_a_lock_without_its_element_is_removed_and_one_whose_element_came_back_is_not(memory: Path) -> None:
    queue = memory / "queue"
    LAYOUTS["dirq-simple"](queue)
    element = queue / "6b00e590/6b00e5b7c2149f"
    element.unlink()
    look = reader(queue, "dirq-simple")
    found = look.see()
    look.close()
    assert [(os.path.basename(lock.path), lock.kind, lock.verdict) for lock in found.locks] == [
        ("6b00e5b7c2149f.lck", "soft", "stale")
    ]
    assert found.findings == () and found.capabilities.why_not(Action.UNLOCK) is None
    ops = operations(queue, "dirq-simple")
    plan = ops.plan(Action.UNLOCK, Selection(ids=(f"{element}.lck",)))
    assert plan.items[0].words.startswith("6b00e590/6b00e5b7c2149f.lck: a lock without its element")
    late = ops.plan(Action.UNLOCK, Selection(everything=True))
    result = ops.apply(plan)
    assert outcomes(result) == [("done", "")] and not Path(f"{element}.lck").exists()
    undone(ops, result)
    assert Path(f"{element}.lck").exists()
    again = ops.plan(Action.UNLOCK, Selection(everything=True))
    element.write_text("put again")
    assert outcomes(ops.apply(again)) == [("skipped", "6b00e590/6b00e5b7c2149f was made meanwhile")]
    assert outcomes(ops.apply(late))[0][0] == "skipped"
    assert ops.plan(Action.UNLOCK, Selection(ids=("nothing",))).missing == ("nothing",)


def test_a_link_in_place_of_spooltops_own_directory_is_refused(memory: Path) -> None:
    queue, elsewhere = memory / "queue", memory / "elsewhere"
    LAYOUTS["job-queue"](queue)
    elsewhere.mkdir()
    (queue / ".spooltop").symlink_to(elsewhere)
    with pytest.raises(Refused, match=r"\.spooltop is not a directory; find out who created it"):
        planned(operations(queue, "job-queue"), Action.HOLD, box=Box.NEW)
    assert list(elsewhere.iterdir()) == []


def test_a_user_who_may_not_write_is_told_why_and_by_whom_it_can_be_done(memory: Path) -> None:
    queue = memory / "queue"
    LAYOUTS["job-queue"](queue)
    (queue / "queue").chmod(0o555)
    if os.geteuid() == 0:
        why = f"you are nobody, its directory belongs to root 0755. Try: sudo -u root spooltop {queue}"
        assert asked_as_nobody(queue) == why
    else:
        assert (operator(queue, "job-queue").why_not(Action.REQUEUE) or "").startswith("you are ")
    (queue / "queue").chmod(0o755)


def asked_as_nobody(queue: Path) -> str | None:
    """Asks in a child whether a user without rights may requeue."""
    for folder in (queue, *queue.parents):
        if folder.name.startswith("spooltop-test-"):
            folder.chmod(0o755)
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setgid(65534)
            os.setuid(65534)
            os.write(write, (operator(queue, "job-queue").why_not(Action.REQUEUE) or "").encode())
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
    os.close(write)
    with os.fdopen(read) as said:
        return said.read()


class _Taken(LogFiles):
    """Lets a worker drop the message just before the operator moves it, as job-queue does with one that has no state."""

    def __init__(self, message: Path) -> None:
        super().__init__()
        self.message = message

    def move(self, name: str, dir_fd: int, to: str, to_fd: int, *more: Any) -> None:  # type: ignore[override]
        if name == self.message.name:
            self.message.unlink()
        super().move(name, dir_fd, to, to_fd, *more)


def test_a_job_that_a_worker_drops_during_its_purge_leaves_no_state_that_refuses_its_id(memory: Path) -> None:
    queue = memory / "queue"
    LAYOUTS["job-queue"](queue)
    message = queue / "queue/000000000005-wait-1.msg"
    ops = operations(queue, "job-queue", _Taken(message))
    result = ops.apply(ops.plan(Action.PURGE, Selection(ids=("wait-1",))))
    assert outcomes(result)[0][0] == "skipped"
    assert not message.exists() and not (queue / "jobs/wait-1.state").exists()
    assert [name.rpartition("/")[2] for name in aside(queue)] == ["wait-1.state"]


def test_two_operators_in_two_processes_do_each_message_once(memory: Path) -> None:
    queue = memory / "queue"
    LAYOUTS["job-queue"](queue)
    for number in range(10, 40):
        (queue / f"queue/{number:012}-many-{number}.msg").write_text("{}")
        (queue / f"jobs/many-{number}.state").write_text("queued:1795220920720")
    plans = [planned(operations(queue, "job-queue"), Action.PURGE, box=Box.NEW) for _ in range(2)]
    children = []
    for place, plan in enumerate(plans):
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                result = operations(queue, "job-queue", wait=time.sleep).apply(plan)
                (memory / f"told-{place}").write_text(json.dumps([[one.id, one.outcome.value] for one in result.items]))
                code = 0
            finally:
                os._exit(code)
        children.append(pid)
    assert [os.waitpid(pid, 0)[1] for pid in children] == [0, 0]
    told = [dict(json.loads((memory / f"told-{place}").read_text())) for place in range(2)]
    assert told[0].keys() == told[1].keys() and len(told[0]) == 32
    assert all(sorted((told[0][id], told[1][id])) == ["done", "skipped"] for id in told[0])
    assert len(aside(queue)) == 64 and not list((queue / "queue").glob("*.msg"))
