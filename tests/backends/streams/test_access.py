"""Users of a server with few rights: what they see, what they are told is missing, and that they change nothing."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from spooltop import open_queue
from spooltop.backends.redis.operator import operator
from spooltop.control import Control, open_control
from spooltop.errors import NotASpool, Refused, Unavailable
from spooltop.model.backend import ListQuery
from spooltop.model.plan import Outcome, Selection
from spooltop.model.vocabulary import Action, Box, Verdict
from tests.cli.streams import Done, spooltop

from .conftest import key, lease

READS = "+@read +info +time +select +client|list +eval_ro %R~jobs %R~{jobs}:*"
"""Rights that are enough to look, as the help has them."""

CHANGES = (
    "+@read +@write -@dangerous +info +time +select +client|list +eval_ro +eval +evalsha +script|load +script|exists +multi "
    "+exec +role ~jobs ~{jobs}:*"
)
"""Rights that are enough to work and to operate, as the help has them."""

Opened = Callable[..., Control]


@pytest.fixture
def opened(url: str, jobs: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Opened]:
    """Opens the stream as a user with the rights of an ACL rule, with a journal of its own for root too."""
    monkeypatch.setattr(operator, "STATE_DIR", str(tmp_path / "state"))
    jobs.xgroup_create("jobs", "other", "0")
    for number in range(5):
        jobs.xadd("jobs", {"data": f"m{number}", "source": "mail"})
    jobs.xreadgroup("work", "leased", {"jobs": ">"}, count=2)
    jobs.hset(key("consumers"), "leased", "far 77")
    jobs.set(lease("leased"), "1", px=600_000)
    jobs.xadd(key("trash"), {"data": "x", "~id": "5-1", "~group": "work"})
    controls: list[Control] = []

    def open_as(rights: str) -> Control:
        jobs.execute_command("ACL", "SETUSER", "viewer", "reset", "on", ">right", *rights.split())
        words = {"SPOOLTOP_REDIS_USER": "viewer", "SPOOLTOP_REDIS_PASSWORD": "right", "XDG_STATE_HOME": str(tmp_path / "state")}
        controls.append(open_control(url, watch=False, settings=words))
        return controls[-1]

    yield open_as
    for control in controls:
        control.close()
    jobs.execute_command("ACL", "DELUSER", "viewer")


def as_viewer(*words: str) -> Done:
    login = {"SPOOLTOP_REDIS_USER": "viewer", "SPOOLTOP_REDIS_PASSWORD": "right"}
    return spooltop(*words, environ={"TERM": "xterm", **login, **os.environ}, stdin=b"x")


def test_the_help_names_the_rights() -> None:
    words = " ".join(spooltop("--help").out.split())
    assert READS.replace("jobs", "STREAM") in words and CHANGES.replace("jobs", "STREAM") in words


def test_the_rights_of_the_help_are_enough_for_all_views(opened: Opened, jobs: Any) -> None:
    before = jobs.dump("jobs")
    jobs.execute_command("ACL", "LOG", "RESET")
    with opened(READS) as control:
        snapshot = control.look()
        seen = snapshot.observation
        assert seen.complete and not seen.hidden and snapshot.not_visible == ()
        assert [seen.boxes[box].count for box in (Box.NEW, Box.CUR, Box.TRASH)] == [3, 2, 1]
        for box in (Box.NEW, Box.CUR, Box.TRASH):
            rows = control.listing(ListQuery(box)).window(0, 10)
            assert rows and all(control.read(row.key).data for row in rows)
        assert [one.verdict for one in control.consumers().consumers] == [Verdict.ALIVE]
        (row, *_) = control.listing(ListQuery(Box.CUR)).window(0, 10)
        assert row.size and control.holders(row.key).complete and control.follow([row.id], 0.0)
        assert [cursor.source for cursor in snapshot.cursors] == ["other", "work"] and control.operations() == []
    assert jobs.dump("jobs") == before and jobs.acl_log() == []  # the server was not asked for what it refuses


@pytest.mark.parametrize("has_scripts", [True, False])
def test_lists_are_the_same_without_scripts_but_for_claims(opened: Opened, jobs: Any, has_scripts: bool) -> None:
    jobs.xadd(key("held"), {"data": "four", "source": "mail", "~id": "5-0", "~tries": "3", "~why": "no good"})
    jobs.xadd("jobs", {"data": b"x" * 4_000_000, "source": "mail"})
    with opened(READS if has_scripts else f"{READS} -eval_ro") as control:
        control.look()
        (row,) = control.listing(ListQuery(Box.HELD)).window(0, 9)
        assert (row.id, row.size, row.source, row.attempt, row.reason) == ("5-0", 4, "mail", 3, "no good")
        assert [(row.size, row.source) for row in control.listing(ListQuery(Box.NEW)).window(0, 9)][2:] == [
            (2, "mail"), (4_000_000, "mail")
        ]  # fmt: skip
        jobs.config_resetstat()
        control.look()
        assert jobs.info("stats")["total_net_output_bytes"] < 50_000


@pytest.mark.parametrize(
    ("denied", "action"), [("get", Action.RESUME), ("pttl", Action.REQUEUE), ("hscan", Action.HOLD)], ids=str
)
def test_what_a_user_may_not_ask_is_not_taken_for_nothing(opened: Opened, denied: str, action: Action) -> None:
    with opened(f"{CHANGES} -{denied}") as control, pytest.raises(Refused, match=f"may not run '{denied}'"):
        control.plan(action, Selection(everything=action is not Action.RESUME))


def test_a_server_that_wants_a_password_says_so_before_the_group_is_known(jobs: Any, socket: str) -> None:
    url = f"unix://{socket}#jobs"
    jobs.config_set("requirepass", "right")
    try:
        for words in ({}, {"SPOOLTOP_REDIS_PASSWORD": "wrong"}):
            with pytest.raises((Unavailable, NotASpool, Refused), match="password") as refused:
                open_control(url, watch=False, settings=words)
            assert "right" not in str(refused.value)
            with pytest.raises(Refused, match="password"):
                open_queue(url, environ=words)
        own = url.replace("unix://", "unix://:right@")
        for where, words in ((url, {"SPOOLTOP_REDIS_PASSWORD": "right"}), (own, {"SPOOLTOP_REDIS_PASSWORD": "wrong"})):
            with open_control(where, watch=False, settings=words) as control, open_queue(where, environ=words) as queue:
                assert control.look().observation.complete and queue.depth() == 0
    finally:
        jobs.execute_command("AUTH", "right")
        jobs.config_set("requirepass", "")


def test_the_rights_of_the_help_are_enough_to_work_and_to_operate(url: str, opened: Opened, jobs: Any) -> None:
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
    assert as_viewer("init", url).code == as_viewer("put", url).code == 0
    assert as_viewer("work", url, "--drain", "--", "true").code in (0, 1)
    assert [(one["reason"], one["object"]) for one in jobs.acl_log() if one["object"] != "client|setinfo"] == []


def test_a_worker_that_may_not_ack_runs_no_further_command(url: str, opened: Opened, tmp_path: Path) -> None:
    opened(CHANGES.replace("+role", "-xack"))
    done = as_viewer("work", url, "--", "sh", "-c", f"echo >> {tmp_path}/ran")
    assert done.code == 3 and "ack: this user of the server may not run" in done.err
    assert (tmp_path / "ran").read_text() == "\n"
