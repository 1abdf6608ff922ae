"""Failing work: counted correctly at any speed, and reported as a problem whose selection is exactly its messages."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from spooltop.control import Control, open_control
from spooltop.engine import Spool
from spooltop.errors import ClaimLost
from spooltop.model.backend import ListQuery
from spooltop.model.plan import Selection
from spooltop.model.snapshot import Problem, Snapshot
from spooltop.model.vocabulary import Action, Box, Verdict
from tests.builders import SpoolWorld
from tests.clock import Clock
from tests.engine.helpers import claimed


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[Spool]:
    with Spool.create(tmp_path / "s", durable=False, max_attempts=10_000) as spool:
        yield spool


class Watched:
    """A control that watches, and its counts since."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.control: Control = open_control(path)
        self.totals: Counter[str] = Counter()
        self.sources: Counter[str] = Counter()
        self.until(lambda snapshot: snapshot.observation.flow.measured)

    def look(self) -> Snapshot:
        snapshot = self.control.look()
        flow = snapshot.observation.flow
        for name in ("arrived", "done", "retried", "requeued", "shifted"):
            self.totals[name] += getattr(flow, name)
        self.sources.update(flow.arrived_by_source)
        return snapshot

    def until(self, holds: Callable[[Snapshot], bool]) -> Snapshot:
        while not holds(snapshot := self.look()):
            self.control.changes(1.0)
        return snapshot

    def settled(self) -> dict[str, int]:
        """Waits until a final event was received and everything that left ``cur`` before it is counted; returns the counts. Only
        its source tells that the final event was counted, and not one before it."""
        for _ in range(3):
            before = self.sources["last"]
            with Spool(self.path, durable=False) as other:
                other.put(b"last", source="last")
            self.until(lambda _snapshot, before=before: self.sources["last"] > before)  # type: ignore[misc]
        self.totals["arrived"] -= 3
        return {name: many for name, many in self.totals.items() if many}


@pytest.fixture
def watched(spool: Spool) -> Iterator[Callable[[], Watched]]:
    opened: list[Watched] = []

    def watch() -> Watched:
        opened.append(Watched(spool.path))
        return opened[-1]

    yield watch
    for one in opened:
        one.control.close()


def attempt(spool: Spool, **how: object) -> None:
    claimed(spool).release(**how)  # type: ignore[arg-type]


def failing(control: Control) -> Problem | None:
    """The problem of what fails in a new look."""
    return next((problem for problem in control.look().problems if problem.code == "failing"), None)


def test_a_thousand_attempts_that_fail_are_retried_and_none_is_done(spool: Spool, watched: Callable[[], Watched]) -> None:
    spool.put_many([b"x"] * 5)
    watch = watched()
    for _ in range(1_000):
        attempt(spool, ended="exit-1")
    assert watch.settled() == {"retried": 1_000}


def test_a_foreign_consumer_gives_back_one_name_and_each_time_counts(spool: Spool, watched: Callable[[], Watched]) -> None:
    ids = spool.put_many([b"x"] * 3)
    watch = watched()
    path = Path(spool.path)
    for number in range(300):
        id = ids[number % 3]
        os.rename(path / "new" / id, path / "cur" / f"{id}:2,P1")
        os.rename(path / "cur" / f"{id}:2,P1", path / "new" / id)
    for id in ids[:2]:  # in work when nobody has heard yet that it was given back
        os.rename(path / "new" / id, path / "cur" / f"{id}:2,P1")
    os.unlink(path / "cur" / f"{ids[0]}:2,P1")
    assert watch.settled() == {"retried": 300, "done": 1}


def test_what_operators_move_is_no_flow(spool: Spool, watched: Callable[[], Watched]) -> None:
    spool.put_many([b"x"] * 6)
    claims = [claimed(spool), claimed(spool)]
    for name in ("foreign", "gone"):
        Path(spool.path, "cur", f"{name}:2,P4194304").touch()
    watch = watched()

    def moved(action: Action, selection: Selection, **options: Any) -> str:
        plan = watch.control.plan(action, selection, force=True, options=options)
        assert plan.count, action
        watch.control.apply(plan)
        watch.look()
        return plan.operation

    moved(Action.HOLD, Selection(box=Box.NEW, everything=True))
    moved(Action.RELEASE, Selection(everything=True))
    purged = moved(Action.PURGE, Selection(box=Box.NEW, everything=True))
    moved(Action.UNDO, Selection(), undoes=purged)
    moved(Action.PURGE, Selection(box=Box.CUR, ids=("gone",)), now=True)
    moved(Action.REQUEUE, Selection(box=Box.CUR, ids=(claims[1].id, "foreign")))
    claims[0].ack()
    with pytest.raises(ClaimLost):
        claims[1].ack()
    assert watch.settled() == {"requeued": 2, "shifted": 2, "done": 1}


def test_a_hold_and_a_release_of_all_leave_the_trend_of_new_as_it_was(spool: Spool, clock: Clock) -> None:
    spool.put_many([b"x"] * 40)
    with open_control(spool.path, clock=clock, watch=False) as control:

        def watch(depth: int) -> list[float | None]:
            """What is told of the trend in a minute with so many in ``new``."""
            slopes = []
            for _ in range(12):
                clock.advance(5)
                snapshot = control.look(rescan=True)
                assert snapshot.observation.boxes[Box.NEW].count == depth
                slopes.append(snapshot.rates.new_per_s)
            return slopes

        assert watch(40)[-6:] == [0.0] * 6
        for action, box, left in ((Action.HOLD, Box.NEW, 0), (Action.RELEASE, None, 40)):
            plan = control.plan(action, Selection(box=box, everything=True))
            assert plan.count == 40
            control.apply(plan)
            assert watch(left) == [0.0] * 12


def test_one_look_tells_what_fails_by_names_alone(spool: Spool) -> None:
    ids = [f"{1795220920443125 + number}.P9R{number:016x}.vm" for number in range(7)]
    now = 1795220990000000
    for name in (
        f"{ids[0]},n=3,t={now},e=exit-1", f"{ids[1]},s=mail,n=8,e=exit-1", f"{ids[2]},n=4,t={now}", f"{ids[3]},n=5,e=died",
        f"{ids[4]},n=2,e=exit-1", f"{ids[5]},n=5", f"{ids[6]},n=9,e=exit-1,x=1",
    ):  # fmt: skip
        Path(spool.path, "new", name).touch()
    with open_control(spool.path, watch=False) as control:
        problem = failing(control)
        assert problem is not None and problem.selection is not None
        assert problem.text == "3 messages retried 15 times, none done; last exit 1"
        assert (problem.count, problem.severity, problem.selection.box) == (3, "critical", "new")
        listing = control.listing(ListQuery(Box.NEW, selection=problem.selection))
        held = control.plan(Action.HOLD, problem.selection)
        for told in (problem.selection.ids, [row.id for row in listing.window(0, 9)], [item.id for item in held.items]):
            assert sorted(told or ()) == ids[:3]
        control.apply(held)
        control.look(rescan=True)
        assert failing(control) is None


def test_how_the_last_attempt_ended_is_told_of_what_fails_alone(spool: Spool, watched: Callable[[], Watched]) -> None:
    fails = spool.put(b"x")
    watch = watched()
    attempt(spool, ended="exit-1")
    attempt(spool, ended="exit-1")
    attempt(spool, ended="exit-2", delay=600)
    spool.put(b"y")
    attempt(spool, ended="TimeoutError", delay=600)
    watch.settled()
    problem = failing(watch.control)
    assert problem is not None and problem.text.endswith("not done; last exit 2")
    assert problem.selection is not None and problem.selection.ids == (fails,)


def test_ten_that_failed_once_are_told_when_they_were_seen_to(spool: Spool, watched: Callable[[], Watched]) -> None:
    ids = spool.put_many([b"x"] * 11)
    watch = watched()
    for _ in range(9):
        attempt(spool, delay=600, ended="TimeoutError")
    watch.settled()
    assert failing(watch.control) is None
    attempt(spool, delay=600, ended="exit-1")
    watch.settled()
    problem = failing(watch.control)
    assert problem is not None and problem.selection is not None and sorted(problem.selection.ids or ()) == sorted(ids[:10])
    assert problem.text.startswith("10 messages retried 10 times in ") and problem.text.endswith(", none done; last exit 1")


def test_where_one_of_them_gets_done_the_others_may_as_well(spool: Spool, watched: Callable[[], Watched]) -> None:
    spool.put_many([b"x"] * 11)
    watch = watched()
    attempt(spool, ended="exit-1")
    with claimed(spool) as claim:
        assert claim.attempt == 2
    for _ in range(10):
        attempt(spool, delay=600, ended="exit-1")
    watch.settled()
    assert failing(watch.control) is None


def test_a_claim_whose_attempts_failed_is_not_one_that_kills(world: SpoolWorld) -> None:
    for number, ended in enumerate((",e=exit-1", ",e=died", "")):
        world.put(f"order-{number},n=4{ended}")
    world.claim_dead(3)
    with world.control() as control:
        snapshot = control.look()
    assert [row.verdict for row in snapshot.observation.claims] == [Verdict.DEAD] * 3
    [poison] = [problem for problem in snapshot.problems if problem.code == "poison"]
    assert poison.selection is not None and poison.count == 2
    names = [str(key[1]) for key in poison.selection.keys or () if isinstance(key, tuple)]
    assert sorted(name.partition(",")[0] for name in names) == ["order-1", "order-2"]
