"""Metrics for Prometheus."""

from __future__ import annotations

import itertools
import sys
import threading
from contextlib import closing
from pathlib import Path
from queue import Empty, Queue
from types import FrameType
from typing import Any, ClassVar, cast
from unittest.mock import MagicMock

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from spooltop.control import Control, open_control
from spooltop.engine import CursorFile, Spool
from spooltop.errors import Refused
from spooltop.model.cursors.state import VERDICTS, Cursor
from spooltop.model.filters.selection import Selection
from spooltop.model.look.flow import Completion, Flow
from spooltop.model.look.observation import Observation, VerdictCounts
from spooltop.model.look.snapshot import Rates, Snapshot
from spooltop.model.operations.plan import OperationRecord
from spooltop.model.vocabulary import Action, Box
from spooltop.monitor.metrics import OTHER, Metrics, TargetMetrics
from spooltop.monitor.watching import Watching
from tests.clock import NOW

Labels = frozenset[tuple[str, str]]


def samples(found: Metrics) -> dict[str, dict[Labels, float]]:
    """The values of each metric by their labels without ``target``, as the library's parser reads them."""
    text = generate_latest(found.registry).decode()
    values: dict[str, dict[Labels, float]] = {}
    for family in text_string_to_metric_families(text):
        assert family.documentation, family.name
        for one in family.samples:
            labels = frozenset((name, value) for name, value in one.labels.items() if name != "target")
            assert labels not in values.setdefault(one.name, {}), one
            values[one.name][labels] = one.value
    return values


def labels(**given: str) -> Labels:
    return frozenset(given.items())


def snapshot(at: float = NOW, *, flow: Flow | None = None, cursors: tuple[Cursor, ...] = (), **more: Any) -> Snapshot:
    observation = Observation("/spool", "spool", at, True, {}, flow=flow or Flow(), **more)
    return Snapshot(observation, Rates(), cursors, ())


def cursor(source: str, verdict: str = "advancing", shown: str = "7", reverts: int = 0) -> Cursor:
    return Cursor(source, shown, shown, verdict, "", "/spool/cursors.json", True, reverts=reverts)


class Journal:
    """A control that knows only operations."""

    def __init__(self, *records: OperationRecord) -> None:
        self.records = list(records)
        self.asked: list[int | None] = []

    def operations(self, *, most: int | None = None) -> list[OperationRecord]:
        self.asked.append(most)
        return self.records[::-1][:most]


def record(number: int, done: int = 1, action: Action = Action.REQUEUE) -> OperationRecord:
    return OperationRecord(f"op{number:06}", action, NOW + number, "ann", done, done)


def looked(*looks: Snapshot, control: Any = None, clock: Any = lambda: NOW) -> tuple[TargetMetrics, Metrics]:
    target = TargetMetrics("/spool", clock, lambda: 0.0)  # nothing takes time, so operations are read after each look
    for one in looks:
        target.look(cast(Control, control or Journal()), one, 0.25)
    return target, Metrics([target])


@pytest.mark.parametrize("closed", [False, True])
def test_a_spool_as_it_is(tmp_path: Path, closed: bool) -> None:
    with Spool.create(tmp_path / "spool", durable=False) as spool:
        first = spool.put(b"x")
        for _ in range(2):
            spool.put(b"x", id="twice", source="bot")
    CursorFile(tmp_path / "spool" / "cursors.json").advance("imessage", 17)
    target = TargetMetrics(spool.path)
    with open_control(spool.path, watch=False) as control:
        control.apply(control.plan(Action.PURGE, Selection(box=Box.NEW, ids=(first,))))
        target.look(control, control.look(), 0.5)
    if closed:
        target.failed("gone", NOW)
    values = samples(Metrics([target]))
    assert values["spooltop_messages"][labels(box="new")] == values["spooltop_messages"][labels(box="trash")] == 1
    assert values["spooltop_duplicates_suppressed_total"] == {labels(source="bot"): 1}
    assert values["spooltop_operations_total"][labels(action="purge", outcome="done")] == 1
    assert values["spooltop_cursor_value"] == {labels(source="imessage"): 17}
    assert values["spooltop_scan_seconds"] == {labels(): 0.5}
    assert values["spooltop_scan_complete"] == {labels(): 0 if closed else 1}


def test_an_old_look_is_not_complete_and_a_target_that_was_never_seen_has_no_values() -> None:
    now = [NOW]
    _, found = looked(snapshot(), clock=lambda: now[0])
    assert samples(found)["spooltop_scan_complete"] == {labels(): 1}
    now[0] += 61
    assert samples(found)["spooltop_scan_complete"] == {labels(): 0}
    values = samples(looked()[1])
    assert values.pop("spooltop_scan_complete") == {labels(): 0}
    assert set(values) == {"spooltop_build_info"}


def test_histograms_add_up_over_looks_and_weigh_samples() -> None:
    slow = Completion(NOW - 100, NOW - 90, NOW - 50)
    quick = Completion(None, NOW - 0.02, NOW)
    unknown = Completion(None, None, NOW)
    flows = Flow(completions=(slow, quick), done=4), Flow(completions=(slow, unknown), done=1)
    _, found = looked(*(snapshot(flow=flow) for flow in flows))
    values = samples(found)
    assert values["spooltop_processing_seconds_count"] == {labels(): 5}
    assert values["spooltop_processing_seconds_sum"][labels()] == pytest.approx(3 * 40 + 2 * 0.02)
    assert values["spooltop_processing_seconds_bucket"][labels(le="0.05")] == 2
    assert values["spooltop_processing_seconds_bucket"][labels(le="10.0")] == 2
    assert values["spooltop_processing_seconds_bucket"][labels(le="60.0")] == 5
    assert values["spooltop_wait_seconds_count"] == {labels(): 3}
    assert values["spooltop_wait_seconds_bucket"][labels(le="5.0")] == 0
    assert values["spooltop_wait_seconds_bucket"][labels(le="10.0")] == 3


def test_one_verdict_of_a_source_is_1() -> None:
    _, found = looked(snapshot(cursors=(cursor("a", "reverted", reverts=3), cursor("b", "idle", shown="token"))))
    values = samples(found)
    verdicts = values["spooltop_cursor_verdict"]
    assert len(verdicts) == 2 * len(VERDICTS)
    assert [one for one, value in verdicts.items() if value] == [
        labels(source="a", verdict="reverted"), labels(source="b", verdict="idle"),
    ]  # fmt: skip
    assert values["spooltop_cursor_reverts_total"] == {labels(source="a"): 3, labels(source="b"): 0}
    assert values["spooltop_cursor_value"] == {labels(source="a"): 7}


def test_sources_past_the_first_200_are_counted_together() -> None:
    first = tuple(cursor(f"s{number:03}", reverts=1) for number in range(203))
    _, found = looked(snapshot(cursors=first), snapshot(cursors=(cursor("early"), *first), at=NOW + 1))
    values = samples(found)
    reverts = values["spooltop_cursor_reverts_total"]
    assert len(reverts) == 201
    assert reverts[labels(source=OTHER)] == 3
    assert labels(source="s000") in reverts  # a series does not end because another source comes
    assert values["spooltop_cursor_sources_left_out"] == {labels(): 4}
    assert values["spooltop_cursor_verdict"][labels(source=OTHER, verdict="advancing")] == 4


def test_duplicates_of_very_many_sources_are_bounded_too_and_waits_for_locks_are_counted() -> None:
    _, found = looked(snapshot(suppressed={f"s{number}": 2 for number in range(205)}, lock_timeouts=3))
    values = samples(found)
    duplicates = values["spooltop_duplicates_suppressed_total"]
    assert (len(duplicates), duplicates[labels(source=OTHER)], sum(duplicates.values())) == (201, 10, 410)
    assert values["spooltop_lock_timeouts_total"] == {labels(): 3}


def test_a_source_that_vanished_stays_ten_minutes() -> None:
    later = snapshot(at=NOW + 599, cursors=(cursor("b"),))
    target, found = looked(snapshot(cursors=(cursor("a", reverts=2), cursor("b"))), later)
    assert labels(source="a") in samples(found)["spooltop_cursor_reverts_total"]
    target.look(cast(Control, Journal()), snapshot(at=NOW + 601, cursors=(cursor("b"),)), 0.1)
    assert set(samples(found)["spooltop_cursor_reverts_total"]) == {labels(source="b")}


def test_operations_are_counted_once_though_the_journal_forgets() -> None:
    journal = Journal(*(record(number) for number in range(1_500)))
    target, found = looked(snapshot(), snapshot(), control=journal)
    done = labels(action="requeue", outcome="done")
    assert samples(found)["spooltop_operations_total"][done] == 1_500
    assert journal.asked[0] is None
    assert all(journal.asked[1:])
    journal.records = [*journal.records[1_000:], record(1_500, done=7)]  # a part was dropped, and one is under way
    target.look(cast(Control, journal), snapshot(), 0.1)
    assert samples(found)["spooltop_operations_total"][done] == 1_507
    journal.records[-1] = record(1_500, done=9)
    target.look(cast(Control, journal), snapshot(), 0.1)
    assert samples(found)["spooltop_operations_total"][done] == 1_509


def test_operations_that_may_not_be_read_are_left_out() -> None:
    class Closed(Journal):
        def operations(self, *, most: int | None = None) -> list[OperationRecord]:
            raise Refused("not yours")

    _, found = looked(snapshot(), control=Closed())
    assert "spooltop_operations_total" not in samples(found)


def test_what_has_not_happened_yet_is_0_so_that_the_first_is_an_increase() -> None:
    target, found = looked(snapshot(cursors=(cursor("a"),)))
    values = samples(found)
    assert len(values["spooltop_operations_total"]) == 36 and set(values["spooltop_operations_total"].values()) == {0}
    assert values["spooltop_cursor_reverts_total"] == {labels(source="a"): 0}
    assert sum(values["spooltop_cursor_verdict"].values()) == 1
    target.look(cast(Control, Journal(record(1, action=Action.HOLD))), snapshot(), 0.1)
    assert samples(found)["spooltop_operations_total"][labels(action="hold", outcome="done")] == 1
    assert len(samples(found)["spooltop_operations_total"]) == 36


def test_the_dead_are_left_out_where_nothing_can_prove_a_death() -> None:
    _, found = looked(snapshot(proves_death=False, counts=VerdictCounts(unknown=3)))
    assert samples(found)["spooltop_claims"] == {labels(verdict="alive"): 0, labels(verdict="unknown"): 3}


def test_hostile_names_are_escaped() -> None:
    target = TargetMetrics('/a"\\\n\udcff')
    target.look(cast(Control, Journal()), snapshot(cursors=(cursor('x"\n\udcff'),), suppressed={"\udcfe": 1}), 0.1)
    values = samples(Metrics([target]))
    assert set(values["spooltop_cursor_reverts_total"]) == {labels(source=r'x"\x0a\xff')}
    assert set(values["spooltop_duplicates_suppressed_total"]) == {labels(source=r"\xfe")}


class Looks:
    """A sink whose news are waited for."""

    def __init__(self) -> None:
        self.news: Queue[Snapshot | str] = Queue()

    def look(self, control: Control, snapshot: Snapshot, seconds: float) -> None:
        assert seconds >= 0
        self.news.put(snapshot)

    def failed(self, why: str, at: float) -> None:
        self.news.put(why)

    def until(self, waiting: int) -> None:
        """Waits for a look that sees so many messages in new."""
        while not isinstance(news := self.news.get(timeout=60), Snapshot) or news.observation.boxes[Box.NEW].count != waiting:
            continue


def test_targets_are_watched_side_by_side_and_a_missing_one_is_tried_again(tmp_path: Path) -> None:
    there, later = tmp_path / "there", tmp_path / "later"
    Spool.create(there).close()
    looks = {str(there): Looks(), str(later): Looks()}
    with closing(Watching(looks, lambda path: open_control(path, settings={}), again=0.05, busy=0.01)) as watching:
        watching.start()
        assert "no such directory" in str(looks[str(later)].news.get(timeout=60))
        Spool.create(later).close()
        looks[str(later)].until(0)
        with Spool(there) as spool:
            spool.put(b"x")
        looks[str(there)].until(1)
        watching.stop()
        assert watching.wait(60)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("watch ")]


@pytest.mark.timeout(60)
def test_a_signal_ends_the_wait_at_whatever_line_it_comes() -> None:
    """The handler runs between two lines of the thread that waits. An event that is set there never ends if the thread was about
    to wait for it, as both need its lock."""
    came = True
    for line in itertools.count(1):
        running = Watching({}, lambda path: open_control(path, settings={}))
        left = line

        def trace(frame: FrameType, event: str, argument: object, running: Watching = running) -> Any:
            nonlocal left
            left -= event == "line"
            if event == "line" and left == 0:
                running.stop()
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            came = running.wait(0)
        finally:
            sys.settrace(before)
        if left > 0:
            break  # all lines of the wait have had their signal
        assert came or running.wait(0), line
    assert line > 2
    assert not came


def test_no_system_call_waits_for_long_as_a_signal_that_comes_when_it_begins_does_not_end_it() -> None:
    class Asked:
        waits: ClassVar[list[float | None]] = []

        def get(self, timeout: float | None = None) -> None:
            self.waits.append(timeout)
            if len(self.waits) < 3:
                raise Empty

        def put(self, item: None) -> None:
            self.waits.append(0.0)

    watching = Watching({}, lambda target: pytest.fail(target))
    watching._asked = Asked()  # type: ignore[assignment]
    assert watching.wait()
    assert len(Asked.waits) == 4 and all(wait is not None and wait <= 1.0 for wait in Asked.waits)


@pytest.mark.parametrize(
    ("targets", "cost", "rest"), [(1, 0.001, 0.5), (1, 0.02, 2.0), (1, 9.0, 5.0), (10, 0.002, 2.0), (300, 0.002, 5.0)]
)
def test_a_target_at_rest_is_looked_at_the_sooner_the_less_it_costs(targets: int, cost: float, rest: float) -> None:
    waited: list[float] = []
    used = itertools.count(0.0, cost)
    asleep = threading.Event()

    def changes(timeout: float) -> bool:
        """Nothing changes; the first wait ends the watching."""
        waited.append(timeout)
        watching.stop()
        return False

    resting = MagicMock(changes=changes)
    resting.__enter__.return_value = resting

    def opened(target: str) -> Control:
        if target != "t0":
            asleep.wait(60)  # one alone looks, and pays for the others
        return resting

    names = {f"t{number}": MagicMock() for number in range(targets)}
    watching = Watching(names, opened, again=5.0, soon=0.5, busy=0.0, spent=lambda: next(used))
    watching.start()
    assert watching.wait(60)
    asleep.set()
    watching.close()
    assert waited[0] == pytest.approx(rest)
