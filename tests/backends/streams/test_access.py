"""Users of a server with few rights: what they see, what they are told is missing, and that they change nothing."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from spooltop.backends.redis.stream_names import StreamNames
from spooltop.cli.parser import overview
from spooltop.control import Control, open_control
from spooltop.errors import NotASpool, Refused, Unavailable
from spooltop.model.filters.selection import Selection
from spooltop.model.look.snapshot import Snapshot
from spooltop.model.operations.plan import Outcome
from spooltop.model.protocols import ListQuery
from spooltop.model.vocabulary import Action, Box, Verdict
from spooltop.queues import open_queue
from tests.cli.streams import spooltop

NAMES = StreamNames("jobs", "work")
READS = "+@read +info +time +select +client|list +eval_ro %R~jobs %R~{jobs}:*"
"""Rights that are enough to look, as the help has them."""

CHANGES = (
    "+@read +@write -@dangerous +info +time +select +client|list +eval_ro +eval +evalsha +script|load +script|exists +multi "
    "+exec +role ~jobs ~{jobs}:*"
)
"""Rights that are enough to work and to operate, as the help has them."""

Opened = Callable[..., Control]


@pytest.fixture
def opened(socket: str, jobs: Any, tmp_path: Path) -> Iterator[Opened]:
    """Opens the stream as a user with the rights of an ACL rule."""
    jobs.xgroup_create("jobs", "other", "0")
    for number in range(5):
        jobs.xadd("jobs", {"data": f"m{number}", "source": "mail"})
    jobs.xreadgroup("work", "leased", {"jobs": ">"}, count=2)
    jobs.hset(NAMES.consumers, "leased", "far 77")
    jobs.set(NAMES.lease("leased"), "1", px=600_000)
    jobs.xadd(NAMES.trash, {"data": "x", "~id": "5-1", "~group": "work"})
    controls: list[Control] = []

    def open_as(rights: str, *, password: str = "right") -> Control:
        jobs.execute_command("ACL", "SETUSER", "viewer", "reset", "on", ">right", *rights.split())
        words = {"SPOOLTOP_REDIS_USER": "viewer", "SPOOLTOP_REDIS_PASSWORD": password, "XDG_STATE_HOME": str(tmp_path / "state")}
        controls.append(open_control(f"unix://{socket}#jobs/work", watch=False, settings=words))
        return controls[-1]

    yield open_as
    for control in controls:
        control.close()
    jobs.execute_command("ACL", "DELUSER", "viewer")


def test_the_help_names_the_rights() -> None:
    words = " ".join(overview().split())
    assert READS.replace("jobs", "STREAM") in words and CHANGES.replace("jobs", "STREAM") in words


def test_the_rights_of_the_help_are_enough_for_all_views(opened: Opened, jobs: Any) -> None:
    before = jobs.dump("jobs")
    jobs.execute_command("ACL", "LOG", "RESET")
    with opened(READS) as control:
        snapshot = control.look()
        seen = snapshot.observation
        assert seen.complete and not seen.hidden and snapshot.not_visible == ()
        assert (seen.boxes[Box.NEW].count, seen.boxes[Box.CUR].count, seen.boxes[Box.TRASH].count) == (3, 2, 1)
        for box in (Box.NEW, Box.CUR, Box.TRASH):
            rows = control.listing(ListQuery(box)).window(0, 10)
            assert rows and all(control.read(row.key).data and row.size for row in rows)
        assert [one.verdict for one in control.consumers().consumers] == [Verdict.ALIVE]
        assert control.holders(rows[0].key).complete and control.follow([rows[0].id], 0.0)
        assert [cursor.source for cursor in snapshot.cursors] == ["other", "work"] and control.operations() == []
    assert jobs.dump("jobs") == before
    assert jobs.acl_log() == []  # the server was not asked for what it refuses


def test_who_may_only_read_is_told_what_is_refused_and_changes_nothing(opened: Opened, jobs: Any) -> None:
    before = jobs.dump("jobs")
    why = "this user of the server may not acknowledge messages (XACK)"
    with opened(READS) as control:
        seen = control.look().observation
        assert not seen.capabilities.change and seen.who.words == f"read-only: {why}"
        for action in (Action.REQUEUE, Action.PURGE, Action.HOLD, Action.PAUSE):
            with pytest.raises(Refused) as refused:
                control.apply(control.plan(action, Selection(box=Box.CUR, everything=True), force=True))
            assert "\n" not in str(refused.value) and "(XACK)" in str(refused.value)
    assert jobs.dump("jobs") == before


@pytest.mark.parametrize(
    ("rights", "why"),
    [
        ("+@all -xack ~*", "this user of the server may not acknowledge messages (XACK)"),
        ("+@all -xdel ~*", "this user of the server may not delete messages (XDEL)"),
        ("+@all -eval ~*", "this user of the server may not run scripts (EVAL)"),
    ],
)
def test_each_right_that_is_missing_is_named(opened: Opened, rights: str, why: str) -> None:
    with opened(rights) as control:
        assert control.look().observation.capabilities.why_not(Action.REQUEUE) == why


def test_who_may_do_all_but_ask_the_role_may_change(opened: Opened) -> None:
    with opened("+@all -role ~*") as control:
        assert control.look().observation.capabilities.change


def _hidden(snapshot: Snapshot) -> str:
    return "; ".join(snapshot.not_visible)


def test_what_may_not_be_asked_is_said_and_the_rest_is_seen(opened: Opened, jobs: Any) -> None:
    jobs.xgroup_createconsumer("jobs", "work", "plain")  # without a lease, a connection of its name is looked for
    with opened(READS.replace("+client|list +eval_ro", "").replace("+info", "")) as control:
        snapshot = control.look()
        assert "names of connections: this user of the server may not run 'client|list'" in _hidden(snapshot)
        assert "ages of what was set aside: this user of the server may not run 'eval_ro'" in _hidden(snapshot)
        assert "memory and role of the server: this user of the server may not run 'info'" in _hidden(snapshot)
        seen = snapshot.observation
        assert (seen.boxes[Box.NEW].count, seen.boxes[Box.CUR].count, seen.boxes[Box.TRASH].count) == (3, 2, 1)
        for box in (Box.NEW, Box.CUR, Box.TRASH):
            rows = control.listing(ListQuery(box)).window(0, 10)
            assert rows and all(control.read(row.key).data for row in rows)


def test_large_entries_are_seen_without_scripts_too(opened: Opened, jobs: Any) -> None:
    jobs.xadd("jobs", {"data": "x" * 10_000})
    with opened(READS.replace("+eval_ro", "")) as control:
        assert [control.look().observation.boxes[Box.NEW].count for _ in range(3)] == [4, 4, 4]


def test_a_lease_that_may_not_be_read_is_no_death(opened: Opened) -> None:
    with opened(READS.replace("%R~{jobs}:*", "%R~{jobs}:spooltop:*")) as control:
        snapshot = control.look()
        assert "leases: this user of the server may not use this key" in _hidden(snapshot)
        (one,) = control.consumers().consumers
        assert (one.verdict, one.evidence) == (Verdict.UNKNOWN, "this user may not read its lease")


def test_side_keys_that_may_not_be_read_are_not_zero(opened: Opened) -> None:
    with opened(READS.replace("%R~{jobs}:*", "")) as control:
        snapshot = control.look()
        assert snapshot.observation.boxes[Box.TRASH].count is None
        assert "trash (this user of the server may not use this key)" in _hidden(snapshot)
        assert snapshot.observation.boxes[Box.NEW].count == 3


@pytest.mark.parametrize(
    ("rights", "password", "line"),
    [
        ("-@all", "right", "this user of the server may not run 'xinfo|stream'; give this user"),
        (READS, "wrong", "the server refuses this user or password; set SPOOLTOP_REDIS_USER and _PASSWORD, or"),
        (READS, "", "the server refuses this user or password; set SPOOLTOP_REDIS_USER and _PASSWORD, or"),
    ],
)
def test_no_rights_and_a_wrong_password_are_one_line_with_advice(
    opened: Opened, socket: str, rights: str, password: str, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(rights, password=password) as control:
        (problem,) = control.look().problems
        assert problem.text.startswith(line) and control.look().observation.complete is False
    monkeypatch.setenv("SPOOLTOP_REDIS_USER", "viewer")
    monkeypatch.setenv("SPOOLTOP_REDIS_PASSWORD", password)
    environ = dict(os.environ, TERM="xterm")
    for command in (["put"], ["ls"], ["status"], ["consumers"], ["cursors"], ["requeue", "ALL", "--yes"]):
        done = spooltop(command[0], f"unix://{socket}#jobs/work", *command[1:], environ=environ, stdin=b"x")
        assert done.code in (3, 5) and done.out == "" and done.err.count("\n") == 1, done
        assert "; " in done.err or "(XACK)" in done.err, done
        assert "Traceback" not in done.err and "right" not in done.err.replace("the rights", "")


def test_a_server_that_wants_a_password_says_so_before_the_group_is_known(jobs: Any, socket: str) -> None:
    jobs.config_set("requirepass", "right")
    try:
        for words in ({}, {"SPOOLTOP_REDIS_PASSWORD": "wrong"}):
            with pytest.raises((Unavailable, NotASpool, Refused)) as refused:
                open_control(f"unix://{socket}#jobs", watch=False, settings=words)
            assert "password" in str(refused.value) and "right" not in str(refused.value)
            with pytest.raises(Refused, match="password"):
                open_queue(f"unix://{socket}#jobs", environ=words)
        with open_control(f"unix://{socket}#jobs", watch=False, settings={"SPOOLTOP_REDIS_PASSWORD": "right"}) as control:
            assert control.look().observation.complete
        with open_queue(f"unix://{socket}#jobs", environ={"SPOOLTOP_REDIS_PASSWORD": "right"}) as queue:
            assert queue.depth() == 0
    finally:
        jobs.execute_command("AUTH", "right")
        jobs.config_set("requirepass", "")


def test_the_rights_of_the_help_are_enough_to_work_and_to_operate(socket: str, opened: Opened, jobs: Any) -> None:
    jobs.xgroup_destroy("jobs", "other")
    jobs.execute_command("ACL", "LOG", "RESET")
    with opened(CHANGES) as control:
        assert control.look().observation.capabilities.change
        for action, box in (
            (Action.HOLD, Box.NEW), (Action.RELEASE, Box.HELD), (Action.REQUEUE, Box.CUR), (Action.PURGE, Box.NEW),
            (Action.EMPTY, Box.TRASH), (Action.PAUSE, None), (Action.RESUME, None),
        ):  # fmt: skip
            done = control.apply(control.plan(action, Selection(box=box, everything=True), force=True))
            assert done.count(Outcome.DONE) == len(done.items) > 0
        control.apply(control.plan(Action.UNDO, Selection(), options={"undoes": done.operation}))
        control.apply(control.plan(Action.RESUME, Selection()))
    words = {"SPOOLTOP_REDIS_USER": "viewer", "SPOOLTOP_REDIS_PASSWORD": "right"}
    url = f"unix://{socket}#jobs/work"
    assert spooltop("init", url, environ=words).code == 0
    assert spooltop("put", url, stdin=b"x", environ=words).code == 0
    assert spooltop("work", url, "--drain", "--", "true", environ={**words, "PATH": os.environ["PATH"]}).code in (0, 1)
    assert [(one["reason"], one["object"]) for one in jobs.acl_log() if one["object"] != "client|setinfo"] == []


def test_a_worker_that_may_not_ack_runs_no_further_command(socket: str, opened: Opened, jobs: Any, tmp_path: Path) -> None:
    opened(CHANGES.replace("+role", "-xack"))
    words = {"SPOOLTOP_REDIS_USER": "viewer", "SPOOLTOP_REDIS_PASSWORD": "right", "PATH": os.environ["PATH"]}
    ran = tmp_path / "ran"
    done = spooltop("work", f"unix://{socket}#jobs/work", "--", "sh", "-c", f"echo >> {ran}", environ=words)
    assert done.code == 3 and "ack: this user of the server may not run" in done.err
    assert ran.read_text() == "\n"
