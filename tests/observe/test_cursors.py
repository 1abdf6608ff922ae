"""Verdicts on cursors: each from a script of writes, everything that a watched file shows, and nothing that it cannot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spooltop.cursors.model import Cursor, CursorWrite, Poll, direction, order, pick, shown
from spooltop.model.snapshot import Flow, Snapshot
from spooltop.model.vocabulary import Json, LockHolder
from spooltop.observe.observer import Observer

from .observations import T0, CursorDisk, look

EMAIL = LockHolder(4312, "python3 /opt/memex/poll_email.py")
REVERTED = "reverted 15→14, 2× in 5m; b advanced in 1 of 2 of these writes"
TOKENS = ["tok-q", "tok-b", "tok-x", "tok-a", "tok-m"]


class Put(NamedTuple):
    """At ``at`` the file gets ``values``, after ``new`` messages of a arrived; ``logs``: (new, start, end) of a poll of a.
    ``journal``: (source, old, new) of a write by the engine."""

    at: float
    values: dict[str, Json]
    new: int = 0
    logs: tuple[int, str, str] | None = None
    journal: tuple[str, Json, Json] | None = None
    writer: LockHolder | None = None
    gone: tuple[str, ...] = ()
    error: str = ""


def watched(script: Sequence[Put], until: float, *, shared: bool = True) -> Snapshot:
    """What is known at ``until``, with a look after each step. A file that is not shared is that of the source a."""
    disk = CursorDisk(shared=shared) if shared else CursorDisk("/opt/memex/cursors/a.json", shared=False)
    observer = Observer()
    for step in script:
        disk.put(step.at, step.values if shared else {name: value for name, value in step.values.items() if name == "a"})
        for name in step.gone:
            disk.sections = {key: value for key, value in disk.sections.items() if key != name}
        disk.error = step.error
        optional: dict[str, Any] = {"writer": step.writer}
        if step.journal is not None:
            optional["journal"] = (CursorWrite(T0 + step.at, *step.journal, LockHolder(1)),)
        rest: dict[str, Any] = {}
        if step.logs is not None:
            rest["polls"] = (Poll("a", T0 + step.at, *step.logs),)
        flow = Flow(arrived=step.new, arrived_by_source={"a": step.new} if step.new else {}, measured=True)
        observer.add(look(step.at + 0.3, cursors=(disk.read(**optional),), flow=flow, **rest))
    return observer.add(look(until, cursors=(disk.read(),)))


def play(script: Sequence[Put], until: float, *, shared: bool = True) -> Cursor:
    """The cursor of the source a at ``until``."""
    return next(cursor for cursor in watched(script, until, shared=shared).cursors if cursor.source == "a")


def every(seconds: float, values: Sequence[Json], **rest: Any) -> list[Put]:
    return [Put(seconds * n, {"a": value, "b": n} if n == 0 else {"a": value}, **rest) for n, value in enumerate(values)]


def again(seconds: float, first: float, times: int, **rest: Any) -> list[Put]:
    """Writes the same value this often."""
    return [Put(first + seconds * n, {}, **rest) for n in range(times)]


RISING = every(60, [10, 11, 12, 13, 14])
CUT_OFF = Put(300, {}, error="it is cut off")
BACK = [Put(300, {"a": 15}), Put(301, {"a": 14, "b": 7}), Put(360, {"a": 15}), Put(361, {"a": 14})]


def written(at: float, old: Json, new: Json) -> Put:
    return Put(at, {"a": new, "b": 1} if at == 0 else {"a": new}, journal=("a", old, new))


MOVES = [written(60 * n, 10 + n, 11 + n) for n in range(4)]
SAME = [written(240 + 60 * n, 14, 14) for n in range(5)]
LOST_ONCE = [Put(0, {"a": 10, "b": 1}), Put(5, {"a": 11}), Put(7, {"a": 10, "b": 2})]
LOST_TWICE = [*LOST_ONCE, Put(9, {"a": 11}), Put(15, {"a": 12}), Put(17, {"a": 11, "b": 3}), Put(19, {"a": 12})]
REWOUND = [Put(0, {"a": 500, "b": 1}), Put(10, {"a": 100})]


@pytest.mark.parametrize(
    ("verdict", "evidence", "script", "until"),
    [
        ("advancing", "every 60s, last 30s ago", RISING, 275),
        ("advancing", "every 60s, last 30s ago", every(60, TOKENS[:4]), 210),
        ("reverted", REVERTED, [*RISING, *BACK], 365),
        ("reverted", "reverted 15→14, 2× in 5m; 2 written by poll_email.py",
         [*RISING, *(step._replace(writer=EMAIL, values={"a": step.values["a"]}) for step in BACK)], 365),
        ("rewound", "went back 14→3 10s ago; its highest was 14", [*RISING, Put(300, {"a": 3})], 310),
        ("rewound", "went back tok-x→tok-q 10s ago; its highest was tok-x", [*every(60, TOKENS[:3]), Put(300, {"a": "tok-q"})],
         310),
        ("idle", "its poller ran 30s ago and has nothing new",
         [*RISING, *again(60, 300, 8, logs=(0, "14", "14"))], 750),
        ("stalled", "lost at least 1×: its poll log found new ones 2× since it moved, last 5s ago",
         [*RISING, Put(300, {}, logs=(2, "14", "16")), Put(360, {}, logs=(1, "16", "17"))], 365),
        ("stalled", "lost at least 2×: its poll log found new ones 3× from the same start 14, last 5s ago",
         [*RISING, *again(60, 300, 3, logs=(4, "14", "18"))], 425),
        ("reverted", f"{REVERTED}; its poll log found new ones 2× from the same start 14, last 3s ago",
         [*RISING, BACK[0]._replace(logs=(4, "14", "15")), *BACK[1:], Put(362, {}, logs=(4, "14", "15"))], 365),
        ("not advancing", "not advancing for 3m, every 60s before", [*RISING, Put(420, {}, logs=(0, "15", "15"))], 425),
        ("stopped", "no poll in its log for 1h, every 60s before", [*RISING, *again(60, 300, 4, logs=(0, "14", "14"))], 4100),
        ("not advancing", "not advancing for 2h, every 60s before; idle or stalled? give --poll-log", RISING, 7500),
        ("missing", "not in cursors.json for 10s; last 14", [*RISING, Put(300, {}, gone=("a",))], 310),
        ("unreadable", "cursors.json: it is cut off; the value is of 1m ago", [*RISING, CUT_OFF], 310),
        ("advancing", "every 60s, last 5s ago; reverted 2×, last 20m ago",
         [*RISING, *BACK, *(Put(420 + 60 * n, {"a": 16 + n}) for n in range(20))], 1565),
        ("reverted", "reverted 11→10, 1× in 7s; b advanced in 1 of 1 of these writes", LOST_ONCE, 8),
        ("reverted", "reverted 11→10, 1× in 7s",
         [Put(0, {"a": 10, "b": {"cursor": "tok-q", "n": 1}}), Put(5, {"a": 11}),
          Put(7, {"a": 10, "b": {"cursor": "tok-q", "n": 2}})], 8),
        ("advancing", "moved 2×, last 1s ago; reverted 1×, last 3s ago", [*LOST_ONCE, Put(9, {"a": 12})], 10),
        ("reverted", "reverted 12→11, 2× in 30s; b advanced in 2 of 2 of these writes", [*LOST_TWICE, Put(30, {"a": 99})], 31),
        ("rewound", "went back 500→100 10s ago; its highest was 500", [*REWOUND, Put(20, {"a": 200})], 21),
        ("advancing", "moved 2×, last 1s ago", [*REWOUND, Put(20, {"a": 200}), Put(30, {"a": 501})], 31),
        ("advancing", "every 8s, last 1s ago", [Put(0, {"a": 0}), Put(8, {"a": 1}), Put(88, {"a": 2}), Put(96, {"a": 3})], 97),
        ("not advancing", "not advancing in 59m of watching; idle or stalled? give --poll-log", [Put(0, {"a": 5, "b": 1})], 3600),
        ("not advancing", "not advancing for 5m, update interval not known yet; idle or stalled? give --poll-log", RISING[:2],
         360.01),
        ("idle", "within its usual interval, every 60s, last 1m ago", RISING, 315.01),
        ("idle", "within its usual interval, every 60s, last 3m ago", RISING, 422),
        ("not advancing", "not advancing for 3m, every 60s before; idle or stalled? give --poll-log", RISING, 422.01),
        ("new", "seen once, no write yet", RISING[:1], 60.2),
        ("not advancing", "not advancing in 1m of watching; idle or stalled? give --poll-log", RISING[:1], 60.3),
        ("idle", "its poller wrote 10s ago and has nothing new", [*MOVES, *SAME], 491),
        ("stopped", "not written for 1h, every 60s before", [*MOVES, *SAME], 4200),
        ("stalled", "written 5× with the same value while messages of it keep arriving, not advancing for 5m",
         [*MOVES, *(step._replace(new=1) for step in SAME)], 491),
        ("rewound", "went back 14→10 20s ago by pid 1; its highest was 14", [*MOVES, written(200, 14, 10)], 225),
    ],
)  # fmt: skip
def test_in_a_shared_file(verdict: str, evidence: str, script: list[Put], until: float) -> None:
    """Each limit is still within it, and what is a little later is not."""
    cursor = play(script, until)
    assert (cursor.verdict, cursor.evidence) == (verdict, evidence)


@pytest.mark.parametrize(
    ("verdict", "evidence", "script", "until"),
    [
        ("stalled", "written 6× with the same value while messages of it keep arriving, not advancing for 6m",
         [*RISING, *again(60, 300, 6, new=2)], 610),
        ("advancing", "every 60s, last 50s ago", [*RISING, *again(10, 250, 4, new=2)], 291),
        ("not advancing", "not advancing for 6m, every 60s before; idle or stalled? written 5s ago with the same value",
         [*RISING, *again(60, 300, 6)], 605),
        ("stopped", "not written for 1h, every 60s before", [*RISING, *again(60, 300, 6)], 4300),
        ("stopped", "not written for 1h, every 60s before; or nothing was new: it was never written without a move", RISING,
         4000),
        ("not advancing", "idle or stalled? written 4× with the same value", every(60, [10] * 5), 245),
        ("idle", "within its usual interval, every 60s, last 3m ago", RISING, 422),
        ("stopped", "not written for 3m, every 60s before; or nothing was new: it was never written without a move", RISING,
         422.01),
        ("idle", "within its usual interval, every 60s, last 3m ago", [*RISING, *again(60, 300, 2, new=2)], 422),
        ("stalled", "written 2× with the same value while messages of it keep arriving, not advancing for 3m",
         [*RISING, *again(60, 300, 2, new=2)], 422.01),
    ],
)  # fmt: skip
def test_in_a_file_of_its_own(verdict: str, evidence: str, script: list[Put], until: float) -> None:
    cursor = play(script, until, shared=False)
    assert (cursor.verdict, cursor.evidence) == (verdict, evidence)


@pytest.mark.parametrize(
    ("problems", "script", "until", "shared"),
    [
        ([("cursor-reverted", "a reverted 15→14, 2× in 5m, as b wrote (1 of 2)")], [*RISING, *BACK], 365, True),
        ([("cursor-stopped", "a stopped: not written for 2h, every 30s before")],
         [Put(0, {"a": 7}), *again(30, 30, 5)], 7350, False),
        ([("cursor-missing", "a: not in cursors.json for 10s; last 14")], [*RISING, Put(300, {}, gone=("a",))], 310, True),
        ([("cursor-unreadable", "cursors.json cannot be read: it is cut off; last good values of 2 kept")],
         [*RISING, CUT_OFF], 310, True),
        ([], RISING, 7500, True),
        ([], RISING[:1], 3600, True),
    ],
)  # fmt: skip
def test_what_is_told_as_a_problem(problems: list[tuple[str, str]], script: list[Put], until: float, shared: bool) -> None:
    """And nobody is accused of what may be nothing."""
    snapshot = watched(script, until, shared=shared)
    assert [(problem.code, problem.text) for problem in snapshot.problems] == problems
    assert all(problem.view == "cursors" for problem in snapshot.problems)
    assert problems or any("a 0" in words for words in snapshot.not_judged) is (script == RISING[:1])


@pytest.mark.parametrize(("apart", "same"), [(3.0, True), (-3.0, True), (3.1, False), (-3.1, False)])
def test_a_line_of_the_journal_and_a_write_that_was_seen_are_one_within_three_seconds(apart: float, same: bool) -> None:
    disk = CursorDisk()
    observer = Observer()
    for at, value in ((0, 10), (60, 11)):
        disk.put(at, {"a": value, "b": 0})
        observer.add(look(at + 0.3, cursors=(disk.read(),)))
    line = CursorWrite(T0 + 60 + apart, "a", 10, 11, EMAIL)
    [a] = [one for one in observer.add(look(70, cursors=(disk.read(journal=(line,)),))).cursors if one.source == "a"]
    assert (len(a.history) == 2) is same
    assert a.history[0].journaled and a.history[0].writer == EMAIL


def test_a_lost_update_is_told_with_what_its_writes_carried() -> None:
    snapshot = watched([*RISING, *BACK], 365)
    cursor, other = sorted(snapshot.cursors, key=lambda cursor: cursor.source)
    assert (cursor.shown, cursor.reverts_recent, cursor.writes) == ("14", 2, 7)
    assert (other.writes, len(other.history)) == (1, 2), "a write that left its section as it was is not one of it"
    assert [entry.also_changed for entry in cursor.history[:4]] == [(), (), ("b",), ()]
    [problem] = snapshot.problems
    assert (problem.view, problem.subject, problem.count) == ("cursors", "a", 2)


def test_a_file_that_vanishes_leaves_its_sources_standing() -> None:
    disk, observer = CursorDisk(), Observer()
    disk.put(0, {"a": 5})
    observer.add(look(1, cursors=(disk.read(),)))
    [cursor] = observer.add(look(130)).cursors
    assert (cursor.verdict, cursor.shown) == ("missing", "5")
    assert observer.add(look(140, cursors=(disk.read(),))).cursors[0].verdict != "missing"


def test_a_heartbeat_in_the_section_is_a_write_and_no_move() -> None:
    cursor = play([Put(at, {"a": {"cursor": 5, "updated_at": at}, "b": 1}) for at in (0, 10)], 11)
    assert (cursor.verdict, cursor.writes, cursor.shown, cursor.moved_is_bound) == ("new", 1, "5", True)
    assert cursor.value == {"cursor": 5, "updated_at": 10}


@pytest.mark.parametrize(
    ("names", "at", "unsafe"),
    [
        (("cursors.json.tmp",), 1, True), (("cursors.json.bak", "cursors.json.3fa9c1"), 1, False),
        (("cursors.tmp.4312",), 59, False), (("cursors.tmp.4312",), 61, True),
        (("cursors.tmp.1", "cursors.tmp.2"), 61, True),
    ],
)  # fmt: skip
def test_unsafe_writers_are_told_by_their_temporary_names_or_by_one_left_behind(
    names: tuple[str, ...], at: float, unsafe: bool
) -> None:
    disk, observer = CursorDisk(), Observer()
    disk.put(0, {"a": 5})
    for time in (0, at):
        snapshot = observer.add(look(time, cursors=(disk.read(temp_files=names),)))
    told = f"cursors.json is written unsafely: {names[0]}{' and 1 more' * (len(names) - 1)} seen"
    assert [(problem.code, problem.text) for problem in snapshot.problems] == [("unsafe-writer", told)] * unsafe
    later = observer.add(look(at + 1, cursors=(disk.read(),)))
    assert (later.problems == ()) is (names != ("cursors.json.tmp",)), "what was left behind is forgotten once it is gone"


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (5, 5), ("abc", "abc"), ({"cursor": 7, "id": 9}, 7), ({"offset": 3}, 3), ({"last_run": 1.5, "last_rowid": 8}, 8),
        ({"name": "x", "n": 4}, 4), ({"a": 1, "b": 2}, {"a": 1, "b": 2}), ({"value": {"id": 6}}, 6), ([1, 2], [1, 2]),
        (None, None), ({"cursor": None, "offset": 4}, 4), ({"ok": True, "n": 4}, 4),
    ],
)  # fmt: skip
def test_where_the_cursor_is_found(value: Json, found: Json) -> None:
    assert pick(value) == found


@pytest.mark.parametrize(
    ("old", "new", "step"),
    [
        (9, 10, 1), ("9", "10", 1), (10, "9", -1), ("2026-11-21T02:41:09Z", "2026-11-21T03:41:10+01:00", 1),
        ("2026-11-21", "2026-11-20", -1), ("abc", "abd", None), (1, "abc", None), (True, False, None), (2**70, 2**70 + 1, 1),
        (float("nan"), 1.0, None), ("2026-13-99", "2026-11-20", None),
    ],
)  # fmt: skip
def test_order(old: Json, new: Json, step: int | None) -> None:
    assert direction(old, new) == step


def test_values_are_neither_grouped_nor_rounded_nor_let_loose() -> None:
    assert shown(204511) == "204511"
    assert shown(12345678901234567890123) == "12345678901234567890123"
    assert shown("a\x1b[31m\ud800") == "a\\x1b[31m\\xed\\xa0\\x80"
    assert order("9" * 5000) is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["cursor", "id", "last_id", "x"]), inner, max_size=3)
    ),
    max_leaves=5,
)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.dictionaries(st.sampled_from(["a", "b", "\x1b"]), JSON, max_size=3), min_size=1, max_size=8), st.booleans())
def test_no_file_breaks_it_and_nothing_it_says_is_unprintable(states: list[dict[str, Json]], shared: bool) -> None:
    disk, observer = CursorDisk(shared=shared), Observer()
    names: set[str] = set()
    for n, state in enumerate(states):
        disk.put(10.0 * n, {})
        disk.sections = state
        names |= set(state)
        snapshot = observer.add(look(10.0 * n + 1, cursors=(disk.read(),)))
        assert {cursor.source for cursor in snapshot.cursors} == names
        texts = [text for cursor in snapshot.cursors for text in (cursor.evidence, cursor.shown)]
        assert all(text.isprintable() for text in [*texts, *(problem.text for problem in snapshot.problems)])


@pytest.mark.early
@given(st.lists(st.integers(1, 5), min_size=1, max_size=30), st.integers(0, 29), st.integers(1, 200), st.booleans())
def test_a_rewind_by_hand_is_never_called_a_lost_update(steps: list[int], place: int, far: int, token: bool) -> None:
    """A single step back that changes no other key, whatever comes before and after."""
    value, script = 100, [Put(0, {"a": _as(100, token), "b": 0})]
    for n, step in enumerate(steps):
        value = value - far if n == place else value + step
        script.append(Put(60.0 * (n + 1), {"a": _as(value, token)}))
        assert play(script, 60.0 * (n + 1) + 5).verdict != "reverted"


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(-4, 4)), max_size=25), st.integers(1, 4))
def test_nothing_written_under_the_lock_is_ever_a_lost_update(moves: list[tuple[str, int]], together: int) -> None:
    """Also rewinds, also the same one twice, also several writes between two looks."""
    disk = CursorDisk()
    disk.put(0, {"a": 10, "b": 10, "c": 10})
    observer = Observer()
    observer.add(look(0.5, cursors=(disk.read(),)))
    lines: list[CursorWrite] = []
    for n, (name, step) in enumerate(moves):
        at = 10.0 * (n + 1)
        old = disk.sections[name]
        lines.append(CursorWrite(T0 + at, name, old, old + step, LockHolder(7)))
        disk.put(at, {name: old + step})
        if (n + 1) % together == 0:
            snapshot = observer.add(look(at + 1, cursors=(disk.read(journal=tuple(lines)),)))
            lines = []
            assert {cursor.reverts_recent for cursor in snapshot.cursors} == {0}


def _as(value: int, token: bool) -> Json:
    return f"tok{value * 7919 % 10_007}" if token else value


NO_NEWS = "not advancing for 2h, update interval not known yet"


@pytest.mark.parametrize(
    ("in_file", "behind", "until", "verdict"),
    [
        (False, (0, True), 7500, ("idle", "nothing waits")),
        (False, (1, True), 7500, ("not advancing", f"{NO_NEWS}; 1 waits")),
        (False, (1, False), 7500, ("not advancing", f"{NO_NEWS}; ≥1 wait")),
        (False, (9, True), 125, ("advancing", "moved 2×, last 5s ago")),
        (True, (0, True), 7500, ("not advancing", f"{NO_NEWS}; idle or stalled? give --poll-log")),
    ],
)
def test_a_cursor_of_a_server_is_judged_by_what_comes_after_it(
    in_file: bool, behind: tuple[int, bool], until: float, verdict: tuple[str, str]
) -> None:
    disk, observer = CursorDisk(), Observer()
    for at, value in ((0, 10), (60, 11), (120, 12)):
        disk.put(at, {"a": value})
        observer.add(look(at + 0.3, cursors=(disk.read(in_file=in_file, behind={"a": behind}),)))
    [cursor] = observer.add(look(until, cursors=(disk.read(in_file=in_file, behind={"a": behind}),))).cursors
    assert (cursor.verdict, cursor.evidence) == verdict


def test_of_the_sources_that_change_in_one_write_each_keeps_a_bounded_list() -> None:
    names = [f"source-{number}" for number in range(200)]
    snapshot = watched([Put(at, dict.fromkeys(names, at)) for at in (0, 5)], 6)
    assert {len(cursor.history[0].also_changed) for cursor in snapshot.cursors} == {64}


def test_the_sources_gone_longest_are_forgotten_at_a_cost_that_grows_with_their_number() -> None:
    asked = 0

    class Name(str):
        __slots__ = ()

        def __hash__(self) -> int:
            nonlocal asked
            asked += 1
            return super().__hash__()

    disk, observer = CursorDisk(), Observer()
    for turn in range(4):
        disk.put(turn, {})
        disk.sections = {Name(f"{turn}-{number}"): number for number in range(1_500)}
        cursors = observer.add(look(turn + 0.5, cursors=(disk.read(),))).cursors
    names = {cursor.source for cursor in cursors}
    assert names == {f"2-{number}" for number in range(1_000, 1_500)} | {f"3-{number}" for number in range(1_500)}
    assert asked < 500_000


def test_a_line_about_a_version_is_not_taken_for_a_write_before_another() -> None:
    observer, disk = Observer(), CursorDisk()
    disk.put(0, {"a": 1, "b": 1})
    observer.add(look(0.3, cursors=(disk.read(unread=0),)))
    disk.put(1, {"a": 3})
    earlier = disk.read(unread=1, read_at=T0 + 1)  # a: 2, which was not read, is not in the journal
    disk.put(1.5, {"b": 2})
    line = CursorWrite(T0 + 1.5, "b", 1, 2, LockHolder(1))
    cursors = observer.add(look(2, cursors=(disk.read(unread=0, earlier=(earlier,), journal=(line,)),))).cursors
    b = next(cursor for cursor in cursors if cursor.source == "b")
    assert [(write.value, write.back, write.journaled) for write in b.history] == [(2, False, True), (1, False, False)]
    assert b.writes_unread == 1


def test_a_file_that_was_made_before_a_look_and_published_after_it_has_its_own_time() -> None:
    observer, disk = Observer(), CursorDisk()
    for at, seen, value in ((0, 0.3, 1), (0, 10, 1), (5, 12, 2)):
        if disk.sections != {"a": value}:
            disk.put(at, {"a": value})
        [a] = observer.add(look(seen, cursors=(disk.read(),))).cursors
    assert a.moved_at == T0 + 5
