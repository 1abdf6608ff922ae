"""A closed Control raises Closed, and a call that runs while it is closed uses its own files to the end."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from spooltop.control import Control, open_control
from spooltop.engine import Spool
from spooltop.errors import Closed, Unreadable
from spooltop.model.backend import KeptView, ListQuery
from spooltop.model.plan import Plan, Selection
from spooltop.model.vocabulary import Action, Box
from tests.scratch import descriptors

CALLS: dict[str, Callable[[Control, Plan], object]] = {
    "apply": lambda control, plan: control.apply(plan),
    "audit": lambda control, plan: control.audit(plan.operation),
    "consumers": lambda control, _: control.consumers(),
    "changes": lambda control, _: control.changes(3600),
    "current_step": lambda control, _: control.current_step(),
    "follow": lambda control, _: control.follow(["x"], 0),
    "has_changed": lambda control, _: control.has_changed(),
    "holders": lambda control, _: control.holders("x"),
    "kept_view": lambda control, _: control.kept_view(),
    "keep_view": lambda control, _: control.keep_view(KeptView()),
    "listing": lambda control, _: control.listing(ListQuery(Box.NEW)),
    "look": lambda control, _: control.look(),
    "mute": lambda control, _: control.mute("x", 1),
    "operations": lambda control, _: control.operations(),
    "with_rate": lambda control, plan: control.with_rate(plan, 1),
    "plan": lambda control, _: control.plan(Action.PURGE, Selection(everything=True)),
    "read": lambda control, _: control.read("x"),
    "save": lambda control, _: control.save("x", "x"),
    "unmute": lambda control, _: control.unmute("x"),
    "watch": lambda control, _: control.watch(0.0),
}


def everything(control: Control) -> Plan:
    return control.plan(Action.PURGE, Selection(box=Box.NEW, everything=True))


def spool(path: Path, count: int = 1) -> Path:
    with Spool.create(path) as made:
        made.put_many([b"x"] * count)
    return path


@pytest.mark.parametrize("watch", [False, True])
def test_a_closed_control_says_so(tmp_path: Path, watch: bool) -> None:
    methods = {name for name, _ in inspect.getmembers(Control, inspect.isfunction) if not name.startswith("_")}
    assert methods == CALLS.keys() | {"close", "now", "wake"}
    with open_control(str(spool(tmp_path)), watch=watch) as control:
        control.look()
        plan = everything(control)
    for call in CALLS.values():
        with pytest.raises(Closed, match="this Control is closed; open it again"):
            call(control, plan)
    control.wake()
    control.close()
    assert control.now() > 0
    with Spool(tmp_path) as there:
        assert there.depth() == 1


def test_no_message_of_a_spool_that_is_gone_can_be_read(tmp_path: Path) -> None:
    before = descriptors()
    with open_control(str(spool(tmp_path / "a"))) as control:
        control.look()
        (tmp_path / "a").rename(tmp_path / "b")
        control.look()
        with pytest.raises(Unreadable, match="the spool cannot be opened"):
            control.read("new/x")
    assert descriptors() == before


@pytest.mark.parametrize("watch", [False, True])
def test_closing_closes_every_file(tmp_path: Path, watch: bool) -> None:
    spool(tmp_path)
    (tmp_path / "cursors.json").write_text('{"mail": 7}')
    open_control(str(tmp_path), watch=watch).close()
    before = descriptors()
    with open_control(str(tmp_path), watch=watch) as control:
        control.look()
        everything(control)
        assert len(descriptors()) > len(before)
    assert descriptors() == before


def test_what_is_under_way_in_another_thread_ends_in_its_own_spool(tmp_path: Path) -> None:
    settings = {"XDG_STATE_HOME": str(tmp_path / "state")}
    control = open_control(str(spool(tmp_path / "mail", 5)), watch=False, settings=settings)
    plan = everything(control)
    opened: list[Spool] = []

    def close() -> None:
        control.close()
        opened.append(Spool.create(tmp_path / "bills"))  # gets the numbers that became free
        opened[0].put_many([b"bill"] * 5)

    def stop() -> bool:
        if not opened:
            thread = threading.Thread(target=close)
            thread.start()
            thread.join()
        return False

    result = control.apply(plan, stop=stop)
    assert [item.outcome.value for item in result.items] == ["done"] * 5
    with opened[0] as bills, Spool(tmp_path / "mail") as mail:
        assert (bills.depth(), mail.depth()) == (5, 0)
    with pytest.raises(Closed):
        control.look()


def test_closing_ends_the_wait_of_another_thread(tmp_path: Path) -> None:
    control = open_control(str(spool(tmp_path)))
    control.look()
    started = threading.Event()

    def wait() -> None:
        started.set()
        try:
            while True:
                control.changes(3600)
        except Closed:
            return

    thread = threading.Thread(target=wait)
    thread.start()
    started.wait()
    control.close()
    thread.join()
