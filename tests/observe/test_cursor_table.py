"""Each verdict of the table, from scripts of writes; and verdicts that no script may produce."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spooltop.model.cursors.state import Cursor, CursorWrite, Poll
from spooltop.model.look.flow import Flow
from spooltop.model.look.locks import LockHolder
from spooltop.model.vocabulary import Json
from spooltop.observe import Observer
from spooltop.observe.cursors.verdict import ASK_FOR_LOGS, on_a_server

from .observations import T0, CursorDisk, look

EMAIL = LockHolder(4312, "python3 /opt/memex/poll_email.py")
TOKENS = ["tok-q", "tok-b", "tok-x", "tok-a", "tok-m"]


class Put(NamedTuple):
    """At ``at`` the file gets ``values``, after ``new`` messages of a arrived; ``logs``: (new, start, end) of a poll of a.
    ``journal``: (source, old, new) of a write by the engine. ``then``: seconds until the next look."""

    at: float
    values: dict[str, Json]
    new: int = 0
    logs: tuple[int, str, str] | None = None
    journal: tuple[str, Json, Json] | None = None
    writer: LockHolder | None = None
    gone: tuple[str, ...] = ()
    error: str = ""


def play(script: Sequence[Put], until: float, *, shared: bool = True) -> Cursor:
    """Returns the verdict on the source a at ``until``, with a look after each step."""
    disk = CursorDisk(shared=shared) if shared else CursorDisk("/opt/memex/cursors/a.json", shared=False)
    observer = Observer()
    for step in script:
        disk.put(step.at, step.values)
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
    snapshot = observer.add(look(until, cursors=(disk.read(),)))
    return next(cursor for cursor in snapshot.cursors if cursor.source == "a")


def every(seconds: float, values: Sequence[Json], **rest: Any) -> list[Put]:
    return [Put(seconds * n, {"a": value, "b": n} if n == 0 else {"a": value}, **rest) for n, value in enumerate(values)]


def again(seconds: float, first: float, times: int, **rest: Any) -> list[Put]:
    """Writes the same value this often."""
    return [Put(first + seconds * n, {}, **rest) for n in range(times)]


RISING = every(60, [10, 11, 12, 13, 14])
CUT_OFF = Put(300, {}, error="it is cut off")
BACK = [Put(300, {"a": 15}), Put(301, {"a": 14, "b": 7}), Put(360, {"a": 15}), Put(361, {"a": 14})]


@pytest.mark.parametrize(
    ("verdict", "evidence", "script", "until"),
    [
        ("advancing", "every 60s, last 30s ago", RISING, 275),
        ("advancing", "every 60s, last 30s ago", every(60, ["10", "11", "12", "13"]), 210),
        ("advancing", "every 60s, last 30s ago", every(60, [{"rowid": n, "host": "x"} for n in range(4)]), 210),
        ("advancing", "every 60s, last 30s ago",
         every(60, [{"since": f"2026-11-21T02:0{n}:00Z", "host": "x"} for n in range(4)]), 210),
        ("advancing", "every 60s, last 30s ago", every(60, TOKENS[:4]), 210),
        ("reverted", "reverted 15→14, 2× in 5m; b advanced in 1 of 2 of these writes", [*RISING, *BACK], 365),
        ("reverted", "reverted tok-x→tok-b, 1× in 3m; b advanced in 1 of 1 of these writes",
         [*every(60, TOKENS[:3]), Put(150, {"a": "tok-b", "b": 2})], 190),
        ("reverted", "reverted 15→14, 2× in 5m; 2 written by poll_email.py",
         [*RISING, *(step._replace(writer=EMAIL, values={"a": step.values["a"]}) for step in BACK)], 365),
        ("rewound", "went back 14→3 10s ago; its highest was 14", [*RISING, Put(300, {"a": 3})], 310),
        ("rewound", "went back 14→3 10s ago; its highest was 14", [*RISING, Put(300, {"a": 3, "b": 9})], 310),
        ("rewound", "went back tok-x→tok-q 10s ago; its highest was tok-x", [*every(60, TOKENS[:3]), Put(300, {"a": "tok-q"})],
         310),
        ("idle", "its poller ran 30s ago and has nothing new",
         [*RISING, *again(60, 300, 8, logs=(0, "14", "14"))], 750),
        ("stalled", "lost at least 1×: its poll log found new ones 2× since it moved, last 5s ago",
         [*RISING, Put(300, {}, logs=(2, "14", "16")), Put(360, {}, logs=(1, "16", "17"))], 365),
        ("stalled", "lost at least 2×: its poll log found new ones 3× from the same start 14, last 5s ago",
         [*RISING, *again(60, 300, 3, logs=(4, "14", "18"))], 425),
        ("stopped", "no poll in its log for 1h, every 60s before", [*RISING, *again(60, 300, 4, logs=(0, "14", "14"))], 4100),
        ("not advancing", "not advancing for 2h, every 60s before; idle or stalled? give --poll-log", RISING, 7500),
        ("idle", "within its usual interval, every 60s, last 2m ago", RISING, 375),
        ("missing", "not in cursors.json for 10s; last 14", [*RISING, Put(300, {}, gone=("a",))], 310),
        ("unreadable", "cursors.json: it is cut off; the value is of 1m ago", [*RISING, CUT_OFF], 310),
    ],
)  # fmt: skip
def test_the_table(verdict: str, evidence: str, script: list[Put], until: float) -> None:
    cursor = play(script, until)
    assert (cursor.verdict, cursor.evidence) == (verdict, evidence)


def test_a_good_copy_stays_when_the_file_breaks_or_the_key_goes() -> None:
    assert play([*RISING, CUT_OFF], 310).shown == "14"
    assert play([*RISING, Put(300, {}, gone=("a",))], 4000).shown == "14"


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
    ],
)  # fmt: skip
def test_in_a_file_of_its_own(verdict: str, evidence: str, script: list[Put], until: float) -> None:
    alone = [step._replace(values={k: v for k, v in step.values.items() if k == "a"}) for step in script]
    cursor = play(alone, until, shared=False)
    assert (cursor.verdict, cursor.evidence) == (verdict, evidence)


@pytest.mark.parametrize(
    ("verdict", "evidence", "script", "until"),
    [
        ("advancing", "moved 1×, last 5m ago", RISING[:2], 360),
        ("not advancing", "not advancing for 5m, update interval not known yet; idle or stalled? give --poll-log", RISING[:2],
         360.01),
        ("advancing", "every 60s, last 1m ago", RISING, 315),
        ("idle", "within its usual interval, every 60s, last 1m ago", RISING, 315.01),
        ("idle", "within its usual interval, every 60s, last 3m ago", RISING, 422),
        ("not advancing", "not advancing for 3m, every 60s before; idle or stalled? give --poll-log", RISING, 422.01),
        ("new", "seen once, no write yet", RISING[:1], 60.2),
        ("not advancing", "not advancing in 1m of watching; idle or stalled? give --poll-log", RISING[:1], 60.3),
    ],
)  # fmt: skip
def test_each_limit_is_still_within(verdict: str, evidence: str, script: list[Put], until: float) -> None:
    """And what is a little later is not: of the first minutes, of the interval and of the silence that it explains."""
    cursor = play(script, until)
    assert (cursor.verdict, cursor.evidence) == (verdict, evidence)


@pytest.mark.parametrize(
    ("verdict", "evidence", "script", "until"),
    [
        ("idle", "within its usual interval, every 60s, last 3m ago", RISING, 422),
        ("stopped", "not written for 3m, every 60s before; or nothing was new: it was never written without a move", RISING,
         422.01),
        ("idle", "within its usual interval, every 60s, last 3m ago", [*RISING, *again(60, 300, 2, new=2)], 422),
        ("stalled", "written 2× with the same value while messages of it keep arriving, not advancing for 3m",
         [*RISING, *again(60, 300, 2, new=2)], 422.01),
    ],
)  # fmt: skip
def test_in_a_file_of_its_own_each_limit_is_still_within(
    verdict: str, evidence: str, script: list[Put], until: float
) -> None:
    alone = [step._replace(values={k: v for k, v in step.values.items() if k == "a"}) for step in script]
    cursor = play(alone, until, shared=False)
    assert (cursor.verdict, cursor.evidence) == (verdict, evidence)


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


def written(at: float, old: Json, new: Json) -> Put:
    return Put(at, {"a": new}, journal=("a", old, new))


MOVES = [written(60 * n, 10 + n, 11 + n) for n in range(4)]


@pytest.mark.parametrize(
    ("verdict", "evidence", "script", "until"),
    [
        ("idle", "its poller wrote 10s ago and has nothing new",
         [*MOVES, *(written(240 + 60 * n, 14, 14) for n in range(5))], 491),
        ("stopped", "not written for 1h, every 60s before",
         [*MOVES, *(written(240 + 60 * n, 14, 14) for n in range(5))], 4200),
        ("stalled", "written 5× with the same value while messages of it keep arriving, not advancing for 5m",
         [*MOVES, *(written(240 + 60 * n, 14, 14)._replace(new=1) for n in range(5))], 491),
        ("rewound", "went back 14→10 20s ago by pid 1; its highest was 14",
         [*MOVES, written(200, 14, 10)], 225),
    ],
)  # fmt: skip
def test_what_the_journal_knows_of_a_shared_file(verdict: str, evidence: str, script: list[Put], until: float) -> None:
    first = script[0]
    cursor = play([first._replace(values={**first.values, "b": 1}), *script[1:]], until)
    assert (cursor.verdict, cursor.evidence) == (verdict, evidence)


@pytest.mark.early
@given(
    st.lists(st.integers(1, 5), min_size=1, max_size=30),
    st.integers(0, 29),
    st.integers(1, 200),
    st.booleans(),
)
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
        assert isinstance(old, int)
        lines.append(CursorWrite(T0 + at, name, old, old + step, LockHolder(7)))
        disk.put(at, {name: old + step})
        if (n + 1) % together == 0:
            snapshot = observer.add(look(at + 1, cursors=(disk.read(journal=tuple(lines)),)))
            lines = []
            assert {cursor.reverts_recent for cursor in snapshot.cursors} == {0}


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, 3)), min_size=1, max_size=20))
def test_each_lost_update_that_stands_at_a_look_is_found(rounds: list[tuple[str, int]]) -> None:
    """One poller saves, the other writes the whole file as it had read it before, with every value but its own unchanged."""
    disk = CursorDisk()
    disk.put(0, {"a": 0, "b": 0})
    observer = Observer()
    observer.add(look(0.5, cursors=(disk.read(),)))
    lost = {"a": 0, "b": 0}
    at = 0.0
    for loser, step in rounds:
        winner = "b" if loser == "a" else "a"
        read = dict(disk.sections)
        mine, other = read[loser], read[winner]
        assert isinstance(mine, int)
        assert isinstance(other, int)
        for values in ({loser: mine + step}, {loser: mine, winner: other + step}):
            at += 5
            disk.put(at, values)
            snapshot = observer.add(look(at + 0.5, cursors=(disk.read(),)))
        lost[loser] += 1
        found = {cursor.source: cursor for cursor in snapshot.cursors}
        assert {name: sum(write.lost for write in cursor.history) for name, cursor in found.items()} == lost
        newest = next(write for write in found[loser].history if write.lost)
        assert newest.also_changed == (winner,)


NO_NEWS = "not advancing for 2h, update interval not known yet; idle or stalled? give --poll-log"


def _as(value: int, token: bool) -> Json:
    return f"tok{value * 7919 % 10_007}" if token else value


@pytest.mark.parametrize(
    ("verdict", "evidence", "behind", "exact", "expected"),
    [
        ("new", "seen once, no write yet", 5, True, ("new", "seen once")),
        ("not advancing", f"not advancing for 2h{ASK_FOR_LOGS}", 0, True, ("idle", "nothing waits")),
        ("not advancing", f"not advancing for 2h{ASK_FOR_LOGS}", 1, True, ("not advancing", "not advancing for 2h; 1 waits")),
        ("not advancing", "not advancing for 2h", 1, False, ("not advancing", "not advancing for 2h; ≥1 wait")),
        ("advancing", "every 1s", 9, True, ("advancing", "every 1s")),
    ],
)
def test_a_cursor_of_a_server_is_judged_by_what_comes_after_it(
    verdict: str, evidence: str, behind: int, exact: bool, expected: tuple[str, str]
) -> None:
    assert on_a_server(verdict, evidence, behind, exact=exact) == expected


@pytest.mark.parametrize(("in_file", "verdict"), [(False, ("idle", "nothing waits")), (True, ("not advancing", NO_NEWS))])
def test_only_a_server_tells_that_nothing_waits(in_file: bool, verdict: tuple[str, str]) -> None:
    disk, observer = CursorDisk(), Observer()
    behind: dict[str, Any] = {"in_file": in_file, "behind": {"a": (0, True)}}
    for at, value in ((0, 10), (60, 11), (120, 12)):
        disk.put(at, {"a": value, "b": value})
        observer.add(look(at + 0.3, cursors=(disk.read(**behind),)))
    snapshot = observer.add(look(7500, cursors=(disk.read(**behind),)))
    [cursor] = [cursor for cursor in snapshot.cursors if cursor.source == "a"]
    assert (cursor.verdict, cursor.evidence) == verdict
