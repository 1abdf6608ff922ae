"""Verdicts on cursors: everything that a watched file shows, and nothing that it cannot."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spooltop.model.cursors.state import Cursor, CursorSource, CursorWrite
from spooltop.model.cursors.values import direction, order, pick, shown
from spooltop.model.look.locks import LockHolder
from spooltop.model.look.snapshot import Snapshot
from spooltop.model.vocabulary import Json
from spooltop.observe import Observer
from spooltop.observe.cursors.history import CursorHistory, Write
from spooltop.observe.cursors.watched_file import WatchedFile

from .observations import T0, CursorDisk, look


class Watcher:
    """Looks at cursor files every so often, up to a time."""

    def __init__(self, *disks: CursorDisk) -> None:
        self.observer = Observer()
        self.disks = disks

    def look(self, at: float, **rest: Any) -> Snapshot:
        return self.observer.add(look(at, cursors=tuple(disk.read(**rest) for disk in self.disks)))

    def cursor(self, at: float, source: str = "imessage") -> Cursor:
        return next(cursor for cursor in self.look(at).cursors if cursor.source == source)


def classic() -> tuple[Watcher, CursorDisk]:
    """imessage saves 89636 and is reverted five times in five minutes, twice of them as email saves its own."""
    disk = CursorDisk()
    disk.put(0, {"imessage": 89632, "email": 204508})
    watcher = Watcher(disk)
    watcher.look(1)
    for n in range(5):
        at = 5.0 + 60 * n
        disk.put(at, {"imessage": 89636})
        watcher.look(at + 0.2)
        disk.put(at + 1, {"imessage": 89632, **({"email": 204509 + n} if n in (1, 4) else {})})
        watcher.look(at + 1.2)
    return watcher, disk


def test_a_lost_update_is_told_with_what_its_writes_carried() -> None:
    watcher, _ = classic()
    snapshot = watcher.look(300)
    cursor = next(cursor for cursor in snapshot.cursors if cursor.source == "imessage")
    assert (cursor.verdict, cursor.shown, cursor.reverts_recent, cursor.writes) == ("reverted", "89632", 5, 10)
    assert cursor.evidence == "reverted 89636→89632, 5× in 4m; email advanced in 2 of 5 of these writes"
    problem = snapshot.problems[0]
    assert problem.code == "cursor-reverted"
    assert problem.text == "imessage reverted 89636→89632, 5× in 4m, as email wrote (2 of 5)"
    assert (problem.view, problem.subject, problem.count) == ("cursors", "imessage", 5)
    assert [entry.also_changed for entry in cursor.history[:4]] == [("email",), (), (), ()]
    assert next(cursor for cursor in snapshot.cursors if cursor.source == "email").verdict == "advancing"


def test_between_a_save_and_the_next_revert_it_is_still_reverted() -> None:
    watcher, disk = classic()
    disk.put(305, {"imessage": 89636})
    assert watcher.cursor(305.2).verdict == "reverted"


def test_once_past_it_and_quiet_a_lost_update_is_told_as_past() -> None:
    watcher, disk = classic()
    for n in range(20):
        disk.put(310 + 60 * n, {"imessage": 89640 + n})
        watcher.look(310.5 + 60 * n)
    cursor = watcher.cursor(310 + 60 * 19 + 5)
    assert cursor.verdict == "advancing"
    assert "reverted 5×, last 20m ago" in cursor.evidence


def test_once_alone_is_a_rewind_until_it_recovers() -> None:
    disk = CursorDisk()
    disk.put(0, {"imessage": 500, "email": 1})
    watcher = Watcher(disk)
    watcher.look(1)
    disk.put(10, {"imessage": 100})
    cursor = watcher.cursor(11)
    assert cursor.verdict == "rewound"
    assert cursor.evidence == "went back 500→100 1s ago; its highest was 500"
    disk.put(20, {"imessage": 200})
    assert watcher.cursor(21).verdict == "rewound"
    disk.put(30, {"imessage": 501})
    assert watcher.cursor(31).verdict == "advancing"


def test_back_once_at_its_own_value_with_another_key_is_a_lost_update() -> None:
    disk = CursorDisk()
    disk.put(0, {"imessage": 10, "email": 1})
    watcher = Watcher(disk)
    watcher.look(1)
    disk.put(5, {"imessage": 11})
    watcher.look(6)
    disk.put(7, {"imessage": 10, "email": 2})
    assert watcher.cursor(8).verdict == "reverted"
    disk.put(9, {"imessage": 12})
    assert watcher.cursor(10).verdict == "advancing"


def test_two_lost_updates_stay_the_verdict_though_it_went_on() -> None:
    disk = CursorDisk()
    disk.put(0, {"imessage": 10, "email": 1})
    watcher = Watcher(disk)
    watcher.look(1)
    for n in range(2):
        disk.put(5 + 10 * n, {"imessage": 11 + n})
        watcher.look(6 + 10 * n)
        disk.put(7 + 10 * n, {"imessage": 10 + n, "email": 2 + n})
        watcher.look(8 + 10 * n)
        disk.put(9 + 10 * n, {"imessage": 11 + n})
        watcher.look(10 + 10 * n)
    disk.put(30, {"imessage": 99})
    cursor = watcher.cursor(31)
    assert (cursor.verdict, cursor.reverts_recent) == ("reverted", 2)


def test_a_line_by_another_process_is_not_of_the_write_that_was_seen() -> None:
    disk = CursorDisk()
    disk.put(0, {"imessage": 5, "email": 1})
    watcher = Watcher(disk)
    watcher.look(1)
    disk.put(5, {"imessage": 6})
    watcher.look(6, writer=LockHolder(1111))
    line = CursorWrite(T0 + 6.5, "imessage", 5, 6, LockHolder(2222))
    history = watcher.look(7, writer=LockHolder(1111), journal=(line,)).cursors[0].history
    seen = next(one for one in history if one.at == T0 + 5)
    assert (seen.writer, seen.journaled) == (LockHolder(1111), False)


def heard_of() -> tuple[Watcher, CursorDisk]:
    """A file each write of which is heard of; seen once."""
    disk = CursorDisk()
    disk.put(0, {"imessage": 5, "email": 1})
    watcher = Watcher(disk)
    watcher.look(1, unread=0)
    return watcher, disk


def line(at: float, source: str, old: Json, new: Json) -> CursorWrite:
    return CursorWrite(T0 + at, source, old, new, LockHolder(1111))


def test_a_line_of_a_write_that_was_seen_by_the_look_before_names_its_writer() -> None:
    watcher, disk = heard_of()
    disk.put(5, {"imessage": 6})
    assert watcher.look(6, unread=0).cursors[0].history[0].writer is None
    history = watcher.look(7, unread=0, journal=(line(5, "imessage", 5, 6),)).cursors[0].history
    assert [(one.at - T0, one.value, one.writer) for one in history] == [(5, 6, LockHolder(1111)), (0, 5, None)]


def test_a_line_of_a_write_that_was_not_read_tells_what_it_was() -> None:
    watcher, disk = heard_of()
    disk.put(5, {"imessage": 7})
    lines = (line(3, "of no section", 1, 2), line(4, "imessage", 5, 6))
    cursor = watcher.look(6, unread=1, journal=lines).cursors[0]
    assert [(one.value, one.writer) for one in cursor.history] == [(7, None), (6, LockHolder(1111)), (5, None)]
    assert cursor.writes_unread == 0


def test_a_line_of_the_write_that_was_read_tells_nothing_of_another() -> None:
    watcher, disk = heard_of()
    disk.put(5, {"imessage": 6})
    cursor = watcher.look(6, unread=1, journal=(line(5, "imessage", 5, 6),)).cursors[0]
    assert [(one.value, one.writer) for one in cursor.history] == [(6, LockHolder(1111)), (5, None)]
    assert cursor.writes_unread == 1


def test_steps_back_that_the_journal_tells_of_prove_none_before_them_lost() -> None:
    disk = CursorDisk()
    disk.put(0, {"imessage": 5, "email": 1})
    watcher = Watcher(disk)
    watcher.look(1)
    for at, value in ((5, 6), (10, 5), (15, 6)):
        disk.put(at, {"imessage": value})
        watcher.look(at + 1)
    disk.put(20, {"imessage": 5})
    cursor = watcher.look(21, journal=(line(20, "imessage", 6, 5),)).cursors[0]
    assert (cursor.value, cursor.reverts_recent) == (5, 0)


def test_lost_twice_within_the_window_is_reverted_though_it_went_past_both() -> None:
    disk = CursorDisk()
    disk.put(0, {"imessage": 10, "email": 1})
    watcher = Watcher(disk)
    watcher.look(1)
    for n in range(2):
        disk.put(5 + 10 * n, {"imessage": 11})
        watcher.look(6 + 10 * n)
        disk.put(7 + 10 * n, {"imessage": 10, "email": 2 + n})
        watcher.look(8 + 10 * n)
    disk.put(30, {"imessage": 15})
    cursor = watcher.cursor(31)
    assert (cursor.verdict, cursor.reverts_recent) == ("reverted", 2)


def test_a_rewind_far_back_beside_another_write_is_no_lost_update() -> None:
    disk = CursorDisk()
    disk.put(0, {"imessage": 500, "email": 1})
    watcher = Watcher(disk)
    watcher.look(1)
    disk.put(5, {"imessage": 0, "email": 2})
    assert watcher.cursor(6).verdict == "rewound"


def test_tokens_without_order_are_reverted_too() -> None:
    disk = CursorDisk()
    disk.put(0, {"imessage": "tok-a", "email": 1})
    watcher = Watcher(disk)
    watcher.look(1)
    for n, token in enumerate(["tok-q", "tok-b", "tok-x"]):
        disk.put(10 + 10 * n, {"imessage": token})
        assert watcher.cursor(11 + 10 * n).verdict == "advancing"
    disk.put(50, {"imessage": "tok-b", "email": 2})
    cursor = watcher.cursor(51)
    assert cursor.verdict == "reverted"
    assert cursor.evidence.startswith("reverted tok-x→tok-b, 1× in 50s; email advanced in 1 of 1")


def test_a_token_that_returns_moves_forward_past_those_that_came_before_it() -> None:
    disk = CursorDisk()
    disk.put(0, {"imessage": "tok-a", "email": 1})
    watcher = Watcher(disk)
    watcher.look(1)
    for n, token in enumerate(["tok-b", "tok-c", "tok-b", "tok-c"]):
        disk.put(10 + 10 * n, {"imessage": token})
        cursor = watcher.cursor(11 + 10 * n)
    assert [write.back for write in cursor.history][:4] == [False, True, False, False]


def test_without_a_known_interval_a_move_is_recent_for_five_minutes() -> None:
    disk = CursorDisk()
    disk.put(0, {"teams": 0})
    watcher = Watcher(disk)
    watcher.look(1)
    disk.put(10, {"teams": 1})
    assert watcher.cursor(11, "teams").verdict == "advancing"
    assert watcher.cursor(310, "teams").verdict == "advancing"
    assert watcher.cursor(311, "teams").verdict == "not advancing"


def test_a_pause_at_the_beginning_is_not_taken_for_the_interval() -> None:
    disk = CursorDisk()
    disk.put(0, {"teams": 0})
    watcher = Watcher(disk)
    watcher.look(1)
    for n, at in enumerate((8, 88, 96)):  # it was stopped for 80 s; its interval is 8 s
        disk.put(at, {"teams": n + 1})
        cursor = watcher.cursor(at + 1, "teams")
    assert (cursor.verdict, cursor.every) == ("advancing", 8.0)


def test_it_learns_the_rhythm_and_says_what_a_shared_file_cannot() -> None:
    disk = CursorDisk()
    disk.put(0, {"teams": 0, "email": 0})
    watcher = Watcher(disk)
    assert watcher.cursor(1, "teams").verdict == "new"
    for n in range(1, 6):
        disk.put(60 * n, {"teams": n})
        cursor = watcher.cursor(60 * n + 1, "teams")
    assert (cursor.verdict, cursor.every, cursor.writes) == ("advancing", 60.0, 5)
    assert watcher.cursor(370, "teams").verdict == "advancing"
    within = watcher.cursor(450, "teams")
    assert (within.verdict, within.evidence) == ("idle", "within its usual interval, every 60s, last 2m ago")
    late = watcher.cursor(300 + 7200, "teams")
    assert (late.verdict, late.evidence) == (
        "not advancing", "not advancing for 2h, every 60s before; idle or stalled? give --poll-log",
    )  # fmt: skip
    assert late.writes is None
    assert not [problem for problem in watcher.look(7501).problems if problem.code.startswith("cursor")]


def test_a_file_of_its_own_tells_stopped_from_idle() -> None:
    disk = CursorDisk("/opt/memex/cursors/teams.json", shared=False)
    disk.put(0, {"teams": 7})
    watcher = Watcher(disk)
    watcher.look(1)
    for n in range(1, 6):
        disk.put(30 * n, {"teams": 7})
        cursor = watcher.cursor(30 * n + 1, "teams")
    assert (cursor.verdict, cursor.writes) == ("not advancing", 5)
    assert cursor.evidence == "idle or stalled? written 5× with the same value"
    assert watcher.cursor(200, "teams").verdict == "not advancing"
    snapshot = watcher.look(150 + 7200)
    assert snapshot.cursors[0].verdict == "stopped"
    assert [problem.text for problem in snapshot.problems] == ["teams stopped: not written for 2h, every 30s before"]


def test_a_source_that_was_never_seen_to_move_is_not_accused() -> None:
    disk = CursorDisk()
    disk.put(-86400, {"old": 5})
    watcher = Watcher(disk)
    first = watcher.cursor(0, "old")
    assert (first.verdict, first.moved_at, first.moved_is_bound, first.writes) == ("new", T0 - 86400, True, None)
    later = watcher.look(3600)
    assert later.cursors[0].verdict == "not advancing"
    assert later.problems == ()
    assert any("old 0" in words for words in later.not_judged)


def test_a_source_that_vanishes_stays_with_its_last_value() -> None:
    disk = CursorDisk()
    disk.put(0, {"imessage": 5, "email": 1})
    watcher = Watcher(disk)
    watcher.look(1)
    disk.put(5, {})
    disk.sections = {"email": 2}
    snapshot = watcher.look(6)
    gone = next(cursor for cursor in snapshot.cursors if cursor.source == "imessage")
    assert (gone.verdict, gone.value, gone.evidence) == ("missing", 5, "not in cursors.json for 1s; last 5")
    assert snapshot.problems[0].code == "cursor-missing"
    disk.put(10, {"imessage": 6})
    assert watcher.cursor(11).verdict == "advancing"


def test_a_file_that_vanishes_leaves_its_sources_standing() -> None:
    disk = CursorDisk()
    disk.put(0, {"imessage": 5})
    watcher = Watcher(disk)
    watcher.look(1)
    snapshot = watcher.observer.add(look(130))
    assert [(cursor.verdict, cursor.shown) for cursor in snapshot.cursors] == [("missing", "5")]
    assert watcher.cursor(140).verdict != "missing"


def test_what_does_not_parse_keeps_the_last_good_copy() -> None:
    disk = CursorDisk()
    disk.put(0, {"imessage": 5, "email": 1})
    watcher = Watcher(disk)
    watcher.look(1)
    disk.error = "it is cut off"
    snapshot = watcher.look(2)
    assert {(cursor.verdict, cursor.shown) for cursor in snapshot.cursors} == {("unreadable", "5"), ("unreadable", "1")}
    assert [problem.code for problem in snapshot.problems] == ["cursor-unreadable"]
    assert snapshot.problems[0].text == "cursors.json cannot be read: it is cut off; last good values of 2 kept"
    disk.error = ""
    assert watcher.look(3).problems == ()


def test_a_file_that_never_parsed_is_shown_by_its_name() -> None:
    shared, own = CursorDisk(), CursorDisk("/opt/memex/cursors/a\x1b.json", shared=False)
    shared.error = own.error = "it is empty"
    snapshot = Watcher(shared, own).look(0)
    assert [(cursor.source, cursor.verdict) for cursor in snapshot.cursors] == [
        ("cursors.json", "unreadable"),
        ("a\x1b", "unreadable"),
    ]
    assert all(problem.text.isprintable() for problem in snapshot.problems)


def test_who_held_the_lock_is_kept_with_each_write() -> None:
    disk = CursorDisk()
    disk.put(0, {"imessage": 5})
    watcher = Watcher(disk)
    watcher.look(1)
    disk.put(5, {"imessage": 6})
    holder = LockHolder(5200, "poller")
    assert watcher.look(6, lock_holders=(holder,)).cursors[0].history[0].held_by == (holder,)


def test_a_heartbeat_in_the_section_is_a_write_and_no_move() -> None:
    disk = CursorDisk()
    disk.put(0, {"imessage": {"cursor": 5, "updated_at": 1.0}})
    watcher = Watcher(disk)
    watcher.look(1)
    disk.put(10, {"imessage": {"cursor": 5, "updated_at": 2.0}})
    cursor = watcher.cursor(11)
    assert (cursor.verdict, cursor.writes, cursor.shown, cursor.moved_is_bound) == ("new", 1, "5", True)
    assert cursor.value == {"cursor": 5, "updated_at": 2.0}


@pytest.mark.parametrize(
    ("names", "unsafe"),
    [(("cursors.json.tmp",), True), (("cursors.json.bak", "cursors.json.3fa9c1"), False), (("cursors.tmp.4312",), False)],
)
def test_unsafe_writers_are_told_by_their_temporary_names(names: tuple[str, ...], unsafe: bool) -> None:
    disk = CursorDisk()
    disk.put(0, {"imessage": 5})
    watcher = Watcher(disk)
    watcher.look(0, temp_files=names)
    after = watcher.look(1)
    assert [problem.code for problem in after.problems] == (["unsafe-writer"] if unsafe else [])


def test_a_temporary_file_left_behind_is_told_after_a_minute() -> None:
    disk = CursorDisk()
    disk.put(0, {"imessage": 5})
    watcher = Watcher(disk)
    for at in (0, 59):
        assert watcher.look(at, temp_files=("cursors.tmp.4312",)).problems == ()
    assert watcher.look(61, temp_files=("cursors.tmp.4312",)).problems[0].code == "unsafe-writer"
    assert watcher.look(62).problems == ()


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (5, 5), ("abc", "abc"), ({"cursor": 7, "id": 9}, 7), ({"offset": 3}, 3), ({"last_run": 1.5, "last_rowid": 8}, 8),
        ({"name": "x", "n": 4}, 4), ({"a": 1, "b": 2}, {"a": 1, "b": 2}), ({"value": {"id": 6}}, 6), ([1, 2], [1, 2]),
        (None, None),
        ({"cursor": None, "offset": 4}, 4), ({"ok": True, "n": 4}, 4),
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
    disk = CursorDisk(shared=shared)
    watcher = Watcher(disk)
    names: set[str] = set()
    for n, state in enumerate(states):
        disk.put(10.0 * n, {})
        disk.sections = state
        names |= set(state)
        snapshot = watcher.look(10.0 * n + 1)
        assert {cursor.source for cursor in snapshot.cursors} == names
        for cursor in snapshot.cursors:
            assert cursor.evidence.isprintable()
            assert cursor.shown.isprintable()
        assert all(problem.text.isprintable() for problem in snapshot.problems)


@given(st.lists(st.integers(min_value=0, max_value=3), max_size=40))
def test_only_forward_moves_never_make_a_lost_update(steps: list[int]) -> None:
    history = CursorHistory(T0, 0, seen_at=T0)
    value = 0
    for n, step in enumerate(steps):
        value += step
        history.write(T0 + n, value, Write(n, also=("other",), advanced=("other",), exact=True))
    assert history.lost_updates(T0 + len(steps)) == []
    assert not history.below_top


def test_of_the_sources_that_change_in_one_write_each_keeps_a_bounded_list() -> None:
    disk = CursorDisk()
    names = [f"source-{number}" for number in range(200)]
    disk.put(0, {name: 4 if name == "source-150" else 5 for name in names})
    watcher = Watcher(disk)
    watcher.look(1)
    disk.put(5, {"source-150": 5})
    watcher.look(5.5)
    disk.put(10, {name: 4 if name == "source-150" else 6 for name in names})
    cursors = {cursor.source: cursor for cursor in watcher.look(10.5).cursors}
    first, last, back = (cursors[f"source-{number}"].history[0].also_changed for number in (0, 199, 150))
    assert (len(first), len(last), len(back)) == (64, 64, 64)
    assert "source-0" not in first and "source-1" in first
    assert last == back == tuple(names[:64])
    assert cursors["source-150"].reverts == 1  # others went forward in the write that brought it back
    assert cursors["source-0"].reverts == 0


def test_the_sources_gone_longest_are_forgotten_at_a_cost_that_grows_with_their_number() -> None:
    class Counted(dict[str, float]):
        asked = 0

        def __getitem__(self, name: str) -> float:
            self.asked += 1
            return super().__getitem__(name)

    file = WatchedFile("/cursors.json", True, lambda source: None, lambda: 6)
    file.gone_since = asked = Counted()
    for turn in range(4):
        sections = {f"{turn}-{number}": number for number in range(1_500)}
        file.add(CursorSource(file.path, True, sections, inode=turn, mtime=T0 + turn, size=turn), T0 + turn, T0 + turn - 1)
    assert list(file.histories) == [f"2-{number}" for number in range(1_000, 1_500)] + [f"3-{number}" for number in range(1_500)]
    assert asked.asked < 20_000
