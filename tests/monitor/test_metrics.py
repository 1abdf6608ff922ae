"""Metrics for Prometheus, the dashboard for Grafana that names them, events between two looks, and the watching behind all."""

from __future__ import annotations

import itertools
import json
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from queue import Empty
from types import FrameType
from typing import Any, ClassVar
from unittest.mock import MagicMock

import pytest
from msgspec.structs import replace
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from spooltop.cli.commands.metrics import OTHER, Metrics, TargetMetrics
from spooltop.control import Control, open_control
from spooltop.cursors.model import Cursor
from spooltop.engine import Spool
from spooltop.errors import Refused, Unreadable
from spooltop.model.plan import OperationRecord, Selection
from spooltop.model.snapshot import BoxState, Completion, Flow, Observation, Pause, Problem, Rates, Severity, Snapshot
from spooltop.model.vocabulary import ASIDE, Action, Box, Verdict
from spooltop.monitor.events import OperationFeed, TargetEvents, Watching, as_json, as_text
from spooltop.monitor.spools_watch import Glance, Level, SpoolsWatch, worst_first
from spooltop.observe.observer import Observer
from tests.cli.streams import spooltop
from tests.clock import NOW
from tests.observe.observations import T0, look

Labels = frozenset[tuple[str, str]]


def labels(**given: str) -> Labels:
    return frozenset(given.items())


def snapshot(at: float = NOW, *, flow: Flow | None = None, cursors: tuple[Cursor, ...] = (), **more: Any) -> Snapshot:
    observation = Observation("/spool", "spool", at, True, {}, flow=flow or Flow(), **more)
    return Snapshot(observation, Rates(), cursors, ())


def cursor(source: str, verdict: str = "advancing", shown: str = "7", reverts: int = 0) -> Cursor:
    return Cursor(source, shown, shown, verdict, "", "/spool/cursors.json", True, reverts=reverts)


def record(number: int, done: int = 1, action: Action = Action.REQUEUE) -> OperationRecord:
    return OperationRecord(f"op{number:06}", action, NOW + number, "ann", done, done)


class Scraped:
    """The metrics of a target, fed by hand, and a control that knows only ``records``. Nothing takes time, so operations are read
    after each look."""

    def __init__(self, *looks: Snapshot, records: tuple[OperationRecord, ...] = (), target: str = "/spool") -> None:
        self.now = NOW
        self.records = list(records)
        self.asked: list[int | None] = []
        self.target = TargetMetrics(target, lambda: self.now, OperationFeed(lambda: 0.0))
        self.look(*looks)

    def look(self, *looks: Snapshot) -> None:
        control: Any = self
        for each in looks:
            self.target.look(control, each, 0.25)

    def operations(self, *, most: int | None = None) -> list[OperationRecord]:
        self.asked.append(most)
        return self.records[::-1][:most]

    def __getitem__(self, name: str) -> dict[Labels, float]:
        """The values of a metric by their labels without ``target``, as the library's parser reads them."""
        return self.all().get(f"spooltop_{name}", {})

    def all(self) -> dict[str, dict[Labels, float]]:
        values: dict[str, dict[Labels, float]] = {}
        for family in text_string_to_metric_families(generate_latest(Metrics([self.target]).registry).decode()):
            assert family.documentation, family.name
            for sample in family.samples:
                given = frozenset((name, value) for name, value in sample.labels.items() if name != "target")
                assert given not in values.setdefault(sample.name, {}), sample
                values[sample.name][given] = sample.value
        return values


def test_an_old_or_failed_look_is_not_complete_and_a_target_that_was_never_seen_has_no_values() -> None:
    scraped = Scraped(snapshot())
    assert (scraped["scan_complete"], scraped["scan_seconds"]) == ({labels(): 1}, {labels(): 0.25})
    scraped.now += 61
    assert scraped["scan_complete"] == {labels(): 0}
    scraped.look(snapshot())
    assert scraped["scan_complete"] == {labels(): 1}
    scraped.target.failed("gone", NOW)
    assert (scraped["scan_complete"], scraped["scan_seconds"]) == ({labels(): 0}, {labels(): 0.25})
    assert Scraped().all().keys() == {"spooltop_build_info", "spooltop_scan_complete"}


def test_histograms_add_up_over_looks_and_weigh_samples() -> None:
    slow, quick = Completion(NOW - 100, NOW - 90, NOW - 50), Completion(None, NOW - 0.02, NOW)
    flows = Flow(completions=(slow, quick), done=4), Flow(completions=(slow, Completion(None, None, NOW)), done=1)
    scraped = Scraped(*(snapshot(flow=flow) for flow in flows))
    assert (scraped["processing_seconds_count"], scraped["wait_seconds_count"]) == ({labels(): 5}, {labels(): 3})
    assert scraped["processing_seconds_sum"][labels()] == pytest.approx(3 * 40 + 2 * 0.02)
    processing, waiting = scraped["processing_seconds_bucket"], scraped["wait_seconds_bucket"]
    assert [processing[labels(le=bound)] for bound in ("0.05", "10.0", "60.0")] == [2, 2, 5]
    assert [waiting[labels(le=bound)] for bound in ("5.0", "10.0")] == [0, 3]


def test_sources_past_the_first_200_are_counted_together() -> None:
    first = tuple(cursor(f"s{number:03}", reverts=1) for number in range(203))
    more = {"suppressed": {f"s{number}": 2 for number in range(205)}, "lock_timeouts": 3}
    scraped = Scraped(snapshot(cursors=first), snapshot(cursors=(cursor("early"), *first), at=NOW + 1, **more))
    reverts, duplicates = scraped["cursor_reverts_total"], scraped["duplicates_suppressed_total"]
    assert (len(reverts), reverts[labels(source=OTHER)], scraped["cursor_sources_left_out"]) == (201, 3, {labels(): 4})
    assert labels(source="s000") in reverts  # a series does not end because another source comes
    assert scraped["cursor_verdict"][labels(source=OTHER, verdict="advancing")] == 4
    assert (len(duplicates), duplicates[labels(source=OTHER)], sum(duplicates.values())) == (201, 10, 410)
    assert scraped["lock_timeouts_total"] == {labels(): 3}


def test_a_source_that_vanished_stays_ten_minutes() -> None:
    left = (cursor("b"),)
    scraped = Scraped(snapshot(cursors=(cursor("a", reverts=2), *left)), snapshot(at=NOW + 599, cursors=left))
    assert labels(source="a") in scraped["cursor_reverts_total"]
    scraped.look(snapshot(at=NOW + 601, cursors=left))
    assert scraped["cursor_reverts_total"].keys() == {labels(source="b")}


def test_operations_are_counted_once_though_the_journal_forgets() -> None:
    scraped = Scraped(snapshot(), snapshot(), records=tuple(map(record, range(1_500))))
    done = labels(action="requeue", outcome="done")
    assert scraped["operations_total"][done] == 1_500
    assert scraped.asked[0] is None and all(scraped.asked[1:])
    scraped.records = [*scraped.records[1_000:], record(1_500, done=7)]  # a part was dropped, and one is under way
    scraped.look(snapshot())
    assert scraped["operations_total"][done] == 1_507
    scraped.records[-1] = record(1_500, done=9)
    scraped.look(snapshot())
    assert scraped["operations_total"][done] == 1_509


def test_operations_that_may_not_be_read_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(self: Scraped, *, most: int | None = None) -> None:
        raise Refused("not yours")

    monkeypatch.setattr(Scraped, "operations", refused)
    assert not Scraped(snapshot())["operations_total"]


def test_what_has_not_happened_yet_is_0_so_that_the_first_is_an_increase() -> None:
    scraped = Scraped(snapshot(cursors=(cursor("a"),)))
    assert len(scraped["operations_total"]) == 36 and set(scraped["operations_total"].values()) == {0}
    assert scraped["cursor_reverts_total"] == {labels(source="a"): 0}
    scraped.records.append(record(1, action=Action.HOLD))
    scraped.look(snapshot())
    assert scraped["operations_total"][labels(action="hold", outcome="done")] == 1 and len(scraped["operations_total"]) == 36


def test_hostile_names_are_escaped() -> None:
    scraped = Scraped(snapshot(cursors=(cursor('x"\n\udcff'),), suppressed={"\udcfe": 1}), target='/a"\\\n\udcff')
    assert scraped["cursor_reverts_total"].keys() == {labels(source=r'x"\x0a\xff')}
    assert scraped["duplicates_suppressed_total"].keys() == {labels(source=r"\xfe")}


def test_the_dashboard_for_grafana_names_only_what_is_exported_in_panels_that_do_not_overlap() -> None:
    known: dict[str, set[str]] = {}
    for family in Metrics([]).collect():
        ends = {"counter": ["_total"], "histogram": ["_bucket", "_count", "_sum"]}.get(family.type, [""])
        known |= {family.name + end: {*getattr(family, "_labelnames", ()), *["le"] * (end == "_bucket")} for end in ends}
    done = spooltop("metrics", "--grafana")
    dashboard = json.loads(done.out)
    queries = [query for panel in dashboard["panels"] for query in panel["targets"]]
    assert (done.code, done.err) == (0, "") and len(queries) >= 14
    for query in queries:
        names = set(re.findall(r"\bspooltop_[a-z_]+", query["expr"]))
        assert names and names <= known.keys(), query
        for name, given in re.findall(r"(spooltop_[a-z_]+)\{([^}]*)\}", query["expr"]):
            assert set(re.findall(r"([a-z]+)[=!]", given)) <= known[name], query
            assert 'target=~"$target"' in given
        shown = set(re.findall(r"\{\{([a-z]+)\}\}", query["legendFormat"]))
        assert "target" in shown and shown <= set.union(*(known[name] for name in names))
    choice = dashboard["templating"]["list"][0]["query"]["query"]
    assert set(re.findall(r"\bspooltop_[a-z_]+", choice)) <= known.keys()
    places = [tuple(panel["gridPos"].values()) for panel in dashboard["panels"]]
    assert len(set(places)) == len(places) and all(x + width <= 24 for x, _, width, _ in places)


# Watching


def test_a_target_that_cannot_be_opened_is_told_and_tried_again(tmp_path: Path) -> None:
    sink = MagicMock()
    sink.failed.side_effect = lambda why, at: Spool.create(tmp_path / "later").close()
    sink.look.side_effect = lambda *words: watching.stop()
    watching = Watching({"later": sink}, lambda path: open_control(str(tmp_path / path), settings={}), again=0.01)
    with watching:
        assert watching.wait(60)
    assert "no such directory" in sink.failed.call_args.args[0]
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

    watching = Watching({}, lambda target: pytest.fail(target), _asked=Asked())  # type: ignore[arg-type]
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
    with watching:
        assert watching.wait(60)
        asleep.set()
    assert waited[0] == pytest.approx(rest)


class Events:
    """Events of the target ``/spool``, in short: kind and subject of each."""

    def __init__(self, target: str = "/spool") -> None:
        self.events = TargetEvents(target)

    def look(
        self, *problems: Problem, at: float = 0, complete: bool = True, reverts: int | None = None,
        operations: tuple[OperationRecord, ...] = (),
    ) -> list[str]:  # fmt: skip
        observation = Observation("/spool", "spool", NOW + at, complete, {})
        cursor = Cursor("imessage", 5, "5", "reverted", "went back", "/c.json", True, reverts=reverts or 0)
        snapshot = Snapshot(observation, Rates(), () if reverts is None else (cursor,), problems)
        self.found = self.events.look(snapshot, operations)
        assert all(event.at == NOW + at for event in self.found)
        return [f"{event.kind} {event.subject}".strip() for event in self.found]


@pytest.fixture
def events() -> Events:
    return Events()


def dead(count: int = 1, severity: Severity = Severity.CRITICAL, box: Box = Box.CUR) -> Problem:
    return Problem("claims-dead", severity, f"{count} claims of dead consumers", count, Selection(box=box))


def stale(subject: str) -> Problem:
    return Problem("lock-stale", Severity.WARNING, f"{subject} is stale", 1, view="locks", subject=subject)


def long_claim(verdict: Verdict) -> Problem:
    return Problem("claim-long", Severity.WARNING, "1 claim held 11m", 1, Selection(box=Box.CUR, verdict=verdict))


def operation(name: str, *, open: bool = False) -> OperationRecord:
    return OperationRecord(name, Action.REQUEUE, NOW, "a\nnn", 3, 2, 1, 0, open)


def test_a_problem_begins_once_and_ends_once_though_it_comes_and_goes(events: Events) -> None:
    assert events.look(dead()) == ["begins claims-dead"]
    for at in range(1, 60, 4):
        assert events.look(at=at) == events.look(dead(), at=at + 2) == []
    assert [events.look(at=at) for at in (60, 68, 69, 99)] == [[], [], ["ends claims-dead"], []]
    assert events.look(dead(), at=100) == ["begins claims-dead"]
    assert events.look(at=160, complete=False) == [], "a look that is not complete ends nothing"
    assert events.look(at=161) == ["ends claims-dead"]


@pytest.mark.parametrize(
    ("counts", "told"),
    [([1, 2], [2]), ([4, 5, 6, 7, 8], [8]), ([8, 5, 4], [4]), ([0, 1], [1]), ([3, 3], []), ([10, 19, 20, 39, 40], [20, 40])],
)
def test_a_count_is_told_when_it_doubles_or_halves_and_a_severity_always(
    events: Events, counts: list[int], told: list[int]
) -> None:
    events.look(dead(counts[0]))
    assert [count for count in counts[1:] if events.look(dead(count)) == ["changes claims-dead"]] == told
    assert events.look(dead(counts[-1], severity=Severity.WARNING)) == ["changes claims-dead"]


@pytest.mark.parametrize(
    ("one", "other"),
    [(stale("a.lock"), stale("b.lock")), (dead(), dead(box=Box.NEW)), (long_claim(Verdict.ALIVE), long_claim(Verdict.UNKNOWN))],
)
def test_problems_of_one_code_are_told_apart(events: Events, one: Problem, other: Problem) -> None:
    assert events.look(one, other) == [f"begins {one.code}"] * 2
    assert events.look(one, other, at=5) == []
    assert events.look(other, at=20) == [f"ends {one.code}"]


@pytest.mark.parametrize(
    ("seen", "told"), [([3, 3, 4], [[], [], ["reverted imessage"]]), ([None, 1], [[], ["reverted imessage"]])]
)
def test_lost_updates_are_told_that_came_after_the_first_look(
    events: Events, seen: list[int | None], told: list[list[str]]
) -> None:
    assert [events.look(reverts=reverts) for reverts in seen] == told


def test_operations_are_told_when_they_have_ended(events: Events) -> None:
    old, first, second = map(operation, ("old", "first", "second"))
    assert events.look(operations=(old,)) == []
    assert events.look(operations=(operation("second", open=True), first, old)) == ["operation first"]
    assert events.look(operations=(second, first, old)) == ["operation second"]
    assert events.look(operations=(second,)) == []


def test_a_target_that_cannot_be_read_is_told_once_and_ends_no_problem(events: Events) -> None:
    events.look(dead())
    whys = [("it is gone", 0), ("it is gone", 15), ("permission denied", 30)]
    failed = [events.events.failed(why, NOW + at) for why, at in whys]
    assert [[(event.kind, event.text) for event in each] for each in failed] == [
        [("unreadable", "it is gone")], [], [("unreadable", "permission denied")],
    ]  # fmt: skip
    assert events.look(dead(), at=60) == ["readable"]


def test_the_text_is_one_line_and_the_json_has_all() -> None:
    events = Events("/sp\nool\udcff")
    events.look()
    events.look(stale("a.lock"), operations=(operation("7f3a"),))
    texts = [as_text(event) for event in events.found]
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d\d:\d\d /sp\\x0aool\\xff [^\n]+", text) for text in texts)
    assert texts[0].endswith(" begins warning lock-stale: a.lock is stale")
    assert texts[1].endswith(r" operation 7f3a: requeue by a\x0ann: done 2, skipped 1, failed 0")
    common = {"schema": 1, "at": NOW, "target": r"/sp\x0aool\xff"}
    assert [json.loads(json.dumps(as_json(event))) for event in events.found] == [
        {
            **common, "event": "begins", "code": "lock-stale", "text": "a.lock is stale", "severity": "warning", "count": 1,
            "view": "locks", "subject": "a.lock",
        },
        {
            **common, "event": "operation", "subject": "7f3a", "text": r"requeue by a\x0ann: done 2, skipped 1, failed 0",
            "action": "requeue", "user": r"a\x0ann", "began_at": NOW, "done": 2, "skipped": 1, "failed": 0,
        },
    ]  # fmt: skip


PATIENCE = 60.0
DEAD = Problem("claims-dead", Severity.CRITICAL, "2 claims of dead consumers", 2)
OLD = Problem("tmp-old", Severity.WARNING, "1 old file in tmp", 1)
UNKNOWN = Problem("claims-unknown", Severity.NOTE, "1 claim of an unknown holder", 1)
POISON = Problem("poison", Severity.CRITICAL, "1 message kills its consumers", 1)


def one_look(*problems: Problem, age: float = 50, paused: Pause | None = None) -> Snapshot:
    states = [BoxState(Box.NEW, 3, oldest_at=T0 - age)]
    return replace(Observer().add(look(0, 3, states=states, paused=paused)), problems=problems)


def test_the_worst_is_first_then_more_problems_then_the_oldest_message_then_the_number_in_the_name() -> None:
    glances = [
        Glance("/pending"), Glance("/fine-10", snapshot=one_look(age=99)), Glance("/note", snapshot=one_look(UNKNOWN)),
        Glance("/old", snapshot=one_look(OLD)), Glance("/dead", snapshot=one_look(OLD, DEAD)),
        Glance("/poison10", snapshot=one_look(POISON)), Glance("/poison9", snapshot=one_look(POISON)),
        Glance("/poison-old", snapshot=one_look(POISON, age=99)), Glance("/closed", error="permission denied"),
        Glance("/hung", snapshot=one_look(), silent_for=41.0, step="readdir of new"), Glance("/fine-9", snapshot=one_look()),
        Glance("/paused", snapshot=one_look(paused=Pause("ann", T0 - 300.0, "a test"))),
    ]  # fmt: skip
    ordered = worst_first(glances)
    names = "/hung /dead /poison-old /poison9 /poison10 /closed /old /note /paused /fine-9 /fine-10 /pending"
    assert [glance.target for glance in ordered] == names.split()
    assert [glance.troubled for glance in ordered] == [True] * 7 + [False] * 5
    said = {glance.target: glance.says for glance in ordered}
    assert said["/hung"] == "does not answer (41s): readdir of new" and said["/dead"] == DEAD.text
    assert said["/paused"] == "paused by ann for 5m: a test"
    paused = ordered[8]
    assert paused.only_paused and not replace(paused, snapshot=one_look(DEAD, paused=Pause("ann", T0))).only_paused


def test_counts_are_those_of_the_look_and_before_it_of_the_names() -> None:
    counted = Glance("/q", counted={Box.NEW: 7, Box.CUR: 1, Box.TMP: None})
    assert (counted.count(Box.NEW), counted.count(Box.TMP), counted.dead, counted.oldest_at) == (7, None, None, None)
    seen = replace(counted, snapshot=one_look())
    assert (seen.count(Box.NEW), seen.count(*ASIDE), seen.dead, seen.oldest_at) == (3, 0, 0, T0 - 50.0)
    missing = BoxState(Box.CUR, None, complete=False, error="is missing")
    assert Glance("/q", snapshot=Observer().add(look(0, 3, states=[missing]))).dead is None


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end, "waited too long"
        threading.Event().wait(0.01)


@pytest.fixture
def spools(tmp_path: Path) -> list[str]:
    for name in ("a", "b", "c"):
        Spool.create(tmp_path / name).close()
    return [str(tmp_path / name) for name in ("a", "b", "c")]


def opened(target: str) -> Control:
    return open_control(target, watch=False, settings={})


@contextmanager
def watching(targets: Sequence[str], **options: object) -> Iterator[SpoolsWatch]:
    options.setdefault("glancing", opened)
    watch = SpoolsWatch(targets, open=opened, every=0.05, **options)  # type: ignore[arg-type]
    watch.start()
    try:
        yield watch
    finally:
        watch.close()


def seen(watch: SpoolsWatch, target: str) -> Glance:
    return next(one for one in watch.glances() if one.target == target)


def test_names_are_counted_before_anything_is_opened(spools: list[str]) -> None:
    gate = threading.Event()

    def glancing(target: str) -> Control:
        gate.wait()
        return opened(target)

    with watching(spools, glancing=glancing, count_names=lambda target: {Box.NEW: 7 * (target == spools[1])}) as watch:
        until(lambda: all(glance.counted for glance in watch.glances()))
        assert [glance.count(Box.NEW) for glance in watch.glances()] == [0, 7, 0]
        assert {glance.level for glance in watch.glances()} == {Level.PENDING}
        gate.set()
        until(lambda: all(glance.snapshot is not None for glance in watch.glances()))


def test_a_change_is_seen_and_told(spools: list[str]) -> None:
    told = threading.Event()
    with watching(spools) as watch:
        watch.wake_with(told.set)
        until(lambda: all(one.snapshot is not None for one in watch.glances()))
        told.clear()
        with Spool(spools[2], durable=False) as queue:
            queue.put(b"x")
        until(lambda: seen(watch, spools[2]).count(Box.NEW) == 1)
        assert told.wait(PATIENCE)


@pytest.mark.parametrize(
    ("error", "says"), [(Unreadable("permission denied"), "permission denied"), (ZeroDivisionError("oh"), "please report")]
)
def test_one_that_cannot_be_opened_says_why_and_is_tried_again(spools: list[str], error: Exception, says: str) -> None:
    shut = [error]

    def glancing(target: str) -> Control:
        if target == spools[0] and shut:
            raise shut[0]
        return opened(target)

    with watching(spools, glancing=glancing) as watch:
        until(lambda: says in seen(watch, spools[0]).says and seen(watch, spools[2]).snapshot is not None)
        shut.clear()
        watch.look_again()
        until(lambda: seen(watch, spools[0]).level is Level.FINE)


def test_each_that_hangs_keeps_its_thread_and_another_goes_on_with_the_rest(spools: list[str]) -> None:
    gate, hung, now = threading.Event(), threading.Event(), [0.0]
    before = set(threading.enumerate())

    def threads() -> list[str]:
        return sorted(thread.name for thread in set(threading.enumerate()) - before)

    def glancing(target: str) -> Control:
        if target in spools[:2]:
            hung.set()
            gate.wait()
        return opened(target)

    with watching(spools, glancing=glancing, monotonic=lambda: now[0]) as watch:
        now[0] = 1.0
        watch.look_again()
        until(lambda: seen(watch, spools[2]).snapshot is not None)
        until(lambda: threads() == ["glances", "spools", "watched call", "watched call"])
        assert hung.is_set() and [one.snapshot for one in watch.glances()[:2]] == [None, None]
        hung.clear()
        now[0] = 10.0
        with Spool(spools[2], durable=False) as queue:
            queue.put(b"x")
        until(lambda: seen(watch, spools[2]).count(Box.NEW) == 1)
        until(lambda: threads() == ["glances", "spools", "watched call", "watched call"])
        assert not hung.is_set(), "one that hangs is asked nothing more"
        assert [one.level for one in watch.glances()] == [Level.SILENT, Level.SILENT, Level.FINE]
        gate.set()
        now[0] = 20.0
        watch.look_again()
        until(lambda: all(one.snapshot is not None for one in watch.glances()))
        until(lambda: threads() == ["glances", "spools"])


def test_one_that_takes_long_keeps_no_other_back(spools: list[str]) -> None:
    others_seen = threading.Event()

    def glancing(target: str) -> Control:
        while target == spools[0] and not others_seen.is_set():
            sum(range(1000))
        return opened(target)

    with watching(spools, glancing=glancing) as watch:
        try:
            until(lambda: all(one.snapshot is not None for one in watch.glances()[1:]))
        finally:
            others_seen.set()
        until(lambda: seen(watch, spools[0]).snapshot is not None)


def test_one_that_cannot_be_looked_at_nor_closed_keeps_no_other_back(spools: list[str]) -> None:
    broken = MagicMock(**{"look.side_effect": ZeroDivisionError("oh"), "close.side_effect": ZeroDivisionError("no")})
    with watching(spools, glancing=lambda target: broken if target == spools[0] else opened(target)) as watch:
        until(lambda: "please report" in seen(watch, spools[0]).says)
        until(lambda: seen(watch, spools[2]).snapshot is not None)
        with Spool(spools[2], durable=False) as queue:
            queue.put(b"x")
        until(lambda: seen(watch, spools[2]).count(Box.NEW) == 1)


def test_new_targets_are_found_and_gone_ones_leave_also_where_few_may_stay_open(spools: list[str], tmp_path: Path) -> None:
    found = spools[:2]
    with watching(spools[:2], find=lambda: found, most_open=1) as watch:
        until(lambda: all(one.snapshot is not None for one in watch.glances()))
        found[:] = spools[1:]
        watch.look_again()
        until(lambda: [one.target for one in watch.glances()] == spools[1:])
        until(lambda: all(one.snapshot is not None for one in watch.glances()))
