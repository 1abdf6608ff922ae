"""Words and styles of states that no picture shows: the dashboard is driven by keys, and what it draws is read."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from spooltop.cursors.model import CursorSection
from spooltop.model.plan import ItemResult, Outcome, Plan, Result
from spooltop.model.snapshot import AGE_BOUNDS, Ages, Pause, Problem, Severity, Snapshot, SourceAges, VerdictCounts
from spooltop.model.vocabulary import Action, Box, Key, Lock, LockHolder, Owner, Payload, Row, Verdict
from spooltop.tui.commands import HelpEntry
from spooltop.tui.draw.elements import Moment, Section, line_text, rows_for
from spooltop.tui.draw.lists import list_header
from spooltop.tui.draw.panels import depth_chart
from spooltop.tui.event_log import EventLog
from spooltop.tui.screens.base import draw_help, fit

from ..snapshots import states, values
from ..snapshots.drawing import Rows, draw, text
from ..snapshots.scenes import LARGE, MIDDLE, SMALL, Scene, SceneControl, Step
from ..snapshots.values import NOW, TZ

TEXTS = Path(__file__).parents[1] / "snapshots" / "text"
HEADER = (100, 23)


@pytest.fixture(autouse=True)
def zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", TZ)
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


async def rows_of(
    snapshot: Snapshot, keys: str = "", size: tuple[int, int] = SMALL, *, see: tuple[str, ...] = ("spooltop",), **more: Any
) -> Rows:
    """The screen after some keys, with the styles of its segments."""
    first = Step(see=("spooltop ",)) if not keys else Step()
    [rows] = await draw(Scene("", lambda: snapshot, (first, Step(tuple(keys.split()), see if keys else ()))), [size], **more)
    return rows


async def drawn(snapshot: Snapshot, keys: str = "", size: tuple[int, int] = SMALL, **more: Any) -> list[str]:
    return text(await rows_of(snapshot, keys, size, **more)).splitlines()


def seen(**changes: object) -> Snapshot:
    """The trouble with other observations."""
    whole = values.trouble()
    return replace(whole, observation=replace(whole.observation, **changes))  # type: ignore[arg-type]


def claimed(*claims: Row) -> Snapshot:
    whole = values.trouble().observation
    boxes = {**whole.boxes, Box.CUR: replace(whole.boxes[Box.CUR], count=len(claims))}
    return seen(claims=claims, boxes=boxes, counts=VerdictCounts(dead=len(claims)))


def paused(by: str | None = "root", seconds: float = 7300) -> Snapshot:
    return seen(paused=Pause(by, NOW - seconds, "why"))


def waiters(*edges: tuple[str, int, int]) -> Snapshot:
    """Locks by (path, pid of the holder, pid of the waiter)."""
    locks = tuple(
        Lock(path, "flock", (LockHolder(a, f"p{a}.py", "ann", NOW - 70),), (LockHolder(b, f"p{b}.py", "ann", NOW - 12),), "held")
        for path, a, b in edges
    )
    return replace(seen(locks=locks), lock_problems={})


def one_problem(**changes: object) -> Snapshot:
    return replace(values.trouble(), problems=(replace(values.problems()[0], **changes),))  # type: ignore[arg-type]


def aged(ages: Ages | None) -> Snapshot:
    return seen(ages=ages)


def sample() -> Snapshot:
    counts = (0, 0, 0, 0, 5_000, 0)
    return aged(Ages(AGE_BOUNDS, counts, (SourceAges("bot", 5_000, counts),), 1, 5_000, 1_000_000))


def many_sources() -> Snapshot:
    each = tuple(SourceAges(f"s{n}", 1, (1, 0, 0, 0, 0, 0)) for n in range(12))
    return aged(Ages(AGE_BOUNDS, (40, 0, 0, 0, 0, 0), each, 40, 40, 40))


DEAD = values.claims()[1]
NOBODY = replace(DEAD, owner=None)
BARE = replace(DEAD, owner=Owner(pid=77))
BOUND = replace(values.claim(2460, attempt=None), since_is_bound=True)
UNKNOWN_PUT = replace(DEAD, enqueued_at=None, in_box_since=None)
SHARED = (values.claim(2466, 1), values.claim(60, 2, attempt=4), values.claim(30, 3, 4313))
MANY = tuple(values.claim(10 + n, n, 9000 + n) for n in range(40))
OLD = values.claim(9000, 1, 7777, Verdict.UNKNOWN)
WHILE_HELD = replace(DEAD, enqueued_at=NOW - 300, in_box_since=NOW - 300)
TOLD = (
    "process  4312 python3 /opt/memex/worker.py", "user     memex on vm", "DEAD: exited", "claims   2, the others:", "1m  …",
    ", attempt 4",
)  # fmt: skip
PAUSED = "PAUSED by root for 2h · live · as of 02:41:09"
RESUMABLE = replace(
    values.trouble(), problems=(Problem("paused", Severity.WARNING, "paused by root for 2h", view="new"),)
)  # fmt: skip
PLACES = "j j j j j"
QUIET = replace(values.trouble(), problems=(), lock_problems={})

Case = tuple[Callable[[], Snapshot], str, tuple[int, int], tuple[str, ...], tuple[str, ...]]
"""A snapshot, keys, a size, words that are drawn then, words that are not."""

CASES: dict[str, Case] = {
    "a problem further down is chosen": (values.trouble, PLACES, SMALL, ("▌·", "2 more, ! shows all: claims dead 2"), ()),
    "claims too many to judge": (lambda: one_problem(at_least=True), "", SMALL, ("r requeue ≥2",), ()),
    "a cursor file alone": (lambda: seen(layout="cursors"), "1", SMALL, ("REVERTED 5×",), ("depth", "requeued")),
    "read-only twice is said once": (states.mail, "", HEADER, ("READ-ONLY", "you are ann"), ("DEAD",)),
    "nobody holds read mail": (states.mail, "3", SMALL, ("age", "in cur", "size", "message"), ("owner", "verdict")),
    "local time": (values.trouble, "3 t", SMALL, ("02:00:03",), ()),
    "local time of another day": (lambda: claimed(values.claim(86400 * 3)), "3 t", SMALL, ("11-18 02:41",), ()),
    "universal time": (values.trouble, "3 t t", SMALL, ("01:00:03Z", " Z"), ()),
    "an age that is a bound, a count nobody keeps": (lambda: claimed(BOUND), "3", SMALL, ("≤41m", " — "), ()),
    "locks that were never had": (lambda: seen(locks_had=0, locks_given_up=0), "6", SMALL, ("leader.lock",), ("own locks",)),
    "few tries have no share": (lambda: seen(locks_had=9, locks_given_up=10), "6", SMALL, ("10 timed out (—) of 19",), ()),
    "many tries have one": (lambda: seen(locks_had=15, locks_given_up=5), "6", SMALL, ("5 timed out (25%) of 20",), ()),
    "muted for an hour": (
        lambda: replace(values.trouble(), muted={"imessage": NOW + 3600}), "5", SMALL, ("REVERTED · muted to 03:41",), ()),
    "muted until tomorrow": (
        lambda: replace(values.trouble(), muted={"imessage": NOW + 90_000}), "5", SMALL, ("REVERTED · muted to 11-22",), ()),
    "writers without a fault": (values.trouble, "5 j j enter", SMALL, ("5117 → 5120",), ("unsafe", "suspect ")),
    "a pause beside the lamp": (paused, "", HEADER, (PAUSED,), ()),
    "a pause at 80 columns": (paused, "", SMALL, (PAUSED,), ()),
    "a pause at 40 columns": (paused, "", (40, 12), ("PAUSED",), ()),
    "a pause by a hostile name": (lambda: paused("a\x1bb", 4), "", HEADER, (r"PAUSED by a\x1bb for 4s",), ()),
    "a pause by nobody": (lambda: paused(None, 4), "", HEADER, ("PAUSED for 4s",), ()),
    "a pause and a frozen display": (paused, "Z", (120, 23), ("PAUSED by root for 2h · FROZEN",), ()),
    "a pause can be ended": (lambda: RESUMABLE, "", SMALL, ("P resume",), ()),
    "a holder with other claims": (lambda: claimed(*SHARED), "3", LARGE, TOLD, ()),
    "a holder that is not named": (lambda: claimed(NOBODY), "3", LARGE, ("not known: the message does not name it",), ()),
    "a holder of which little is known": (
        lambda: claimed(BARE), "3", LARGE, ("process  77", "user     ? on ?", "started  not known"), ()),
    "many consumers": (lambda: claimed(*MANY), "3", LARGE, ("DEAD      9039", "29 more"), ()),
    "more claims than there is room for": (
        lambda: claimed(*MANY, OLD), "", LARGE, ("claims, dead ones first", " more"), ("7777",)),
    "a lock that is stale for a moment": (lambda: QUIET, "6", SMALL, ("leader.lock", "Locks 3"), ("STALE", "with problems")),
    "an overview over such a lock": (lambda: QUIET, "", LARGE, ("leader.lock", "no problems detected"), ("STALE",)),
    "nobody waits for a lock": (states.calm, "6", LARGE, ("nobody waits for a lock",), ()),
    "a chain of waiters": (
        lambda: waiters(("/x/b.lock", 2, 3), ("/x/a.lock", 1, 2)), "6", LARGE,
        (" 1 p1.py of ann holds a.lock ≥1m", " └ 2 p2.py of ann waits ≥10s", "   2 p2.py of ann holds b.lock ≥1m",
         "   └ 3 p3.py of ann waits ≥10s"), ("DEADLOCK",)),
    "a deadlock": (lambda: waiters(("/x/a.lock", 1, 2), ("/x/b.lock", 2, 1)), "6", LARGE, ("DEADLOCK",), ()),
    "waiters without room": (
        lambda: waiters(*((f"/x/{n}.lock", n, 100 + n) for n in range(40))), "6", MIDDLE, (" more lines",), ()),
    "ages of a sample": (sample, "", LARGE, ("~ from 5,000 of 1,000,000", "1,000,000", "~1.0M", "~0"), ()),
    "ages of many sources": (many_sources, "", LARGE, (" more sources",), ()),
    "ages of nothing": (lambda: aged(Ages(AGE_BOUNDS, (0,) * 6, (), 0, 0, 0)), "", LARGE, ("nothing waits",), ()),
    "nothing happened": (
        lambda: replace(states.calm(), cursors=()), "", LARGE, ("nothing since watching began 1h03m ago",), ()),
    "panels without cursors and locks": (
        lambda: replace(seen(locks=()), cursors=()), "", (120, 30), ("tmp, abandoned ones first",), ("5 cursors", "6 locks")),
    "the legend": (
        values.trouble, "question_mark", (120, 110),
        ("✗ ! ·", "≥ ≤", "alive", "DEAD", "unknown", "abandoned", "held", "BLOCKED", "STALE", "free", "REVERTED", "idle"), ()),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
async def test_each_state_is_said_in_words(name: str) -> None:
    snapshot, keys, size, words, others = CASES[name]
    screen = "\n".join(await drawn(snapshot(), keys, size, see=words))
    assert [word for word in words if word not in screen] == [], screen
    assert [word for word in others if word in screen] == [], screen


@pytest.mark.parametrize(("height", "last"), [(2, "… 2 more lines, PgDn"), (3, "k up")])
def test_help_says_how_much_does_not_fit(height: int, last: str) -> None:
    lines = draw_help({"Move": (HelpEntry("j", "down"), HelpEntry("k", "up"))}, 60)
    assert line_text(fit(lines, height)[-1]).split() == last.split()


@pytest.mark.parametrize(("height", "lines"), [(7, 0), (8, 8), (99, 18)])
def test_a_graph_of_the_depth_needs_eight_lines_and_takes_eighteen(height: int, lines: int) -> None:
    assert len(depth_chart(values.trouble(), 160, height)) == lines


@pytest.mark.parametrize(("height", "rows"), [(20, [5, 12]), (11, [5, 3]), (9, [4, 2]), (8, [3, 2]), (6, [4, 0]), (3, [0, 0])])
def test_panels_take_their_least_then_their_most_and_the_last_what_is_left(height: int, rows: list[int]) -> None:
    assert rows_for([Section("", lambda *_: (), 3, 5), Section("", lambda *_: (), 2, 3)], height) == rows


@pytest.mark.parametrize(
    ("length", "total", "pending", "words"),
    [
        (3, 12, False, "New 3 of 12 match src:email"), (3, 3, False, "New 3 of 3 match src:email"),
        (3, 2, False, "New 3 match src:email"), (3, None, False, "New 3 match src:email"),
        (None, 12, True, "New … of 12 match src:email"), (None, 12, False, " match src:email"),
    ],
)  # fmt: skip
def test_a_filter_says_of_how_many_only_where_that_is_known(
    length: int | None, total: int | None, pending: bool, words: str
) -> None:
    line = list_header(values.trouble(), "New", length, 120, Moment(NOW), filter="src:email", total=total, pending=pending)
    assert words in line_text(line)


async def test_nothing_below_moves_when_trouble_comes_or_a_number_grows() -> None:
    whole = values.trouble()
    boxes = dict(whole.observation.boxes)
    boxes[Box.NEW] = replace(boxes[Box.NEW], count=1_234_567, complete=False, bytes=999_000_000_000)
    screens = [await drawn(snapshot) for snapshot in (whole, one_problem(), replace(whole, problems=()), seen(boxes=boxes))]
    assert len({next(y for y, line in enumerate(lines) if line.startswith(" box")) for lines in screens}) == 1
    before, after = (next(line for line in lines if line.startswith(" new ")) for lines in (screens[0], screens[-1]))
    assert "≥1,234,567" in after and before.index("▇") == after.index("▇")


async def test_what_happened_is_told_newest_first_with_its_sign() -> None:
    whole = values.trouble()

    def change(problems: tuple[Problem, ...], later: float) -> Callable[[SceneControl], None]:
        def act(control: SceneControl) -> None:
            observation = replace(whole.observation, taken_at=NOW + later)
            control.snapshot = replace(whole, problems=problems, observation=observation)
            control.change()

        return act

    steps = (
        Step(see=("no problems detected",)), Step(act=change(whole.problems, 1), see=("6 PROBLEMS",)),
        Step(act=change(whole.problems[1:], 20), see=("✓ over: 2 claims of dead",)),
    )  # fmt: skip
    calm = replace(whole, problems=(), observation=replace(whole.observation, claims=()))
    [rows] = await draw(Scene("", lambda: calm, steps), [LARGE])
    told = [line[1:] for line in text(rows).splitlines() if re.match(r"│ \d\d:\d\d:\d\d ", line)]
    assert [line.split()[0] for line in told] == sorted((line.split()[0] for line in told), reverse=True)
    assert any(" ✗ 2 claims of dead" in line for line in told) and any(" ! 1 claim held" in line for line in told)
    assert any("consumer 4312 worker.py exited, holding 1" in line for line in told)


def test_an_operation_that_ends_while_others_are_logged_is_logged_with_the_next_look() -> None:
    def ended(number: int) -> Result:
        return Result(f"op-{number}", Action.REQUEUE, "/spool", NOW, [ItemResult("id", "id", Outcome.DONE)])

    class Ending(list[Result]):
        """Gets another result from the worker right after it was read."""

        def __getitem__(self, at: Any) -> Any:
            found = super().__getitem__(at)
            if len(self) < 3:
                self.append(ended(len(self)))
            return found

    log, results = EventLog(), Ending()
    for _ in range(4):
        log.take(values.trouble(), results)
    assert [event.words.rpartition(" · ")[2] for event in log.newest(NOW)] == ["op-0", "op-1", "op-2"]


def styles(rows: Rows, words: str, line: str = "") -> set[tuple[str, bool, bool, bool]]:
    """(Colour, bold, dim, reverse) of the segments with these words, in the first line with ``line``."""
    row = next(row for row in rows if (line or words) in "".join(segment.text for segment in row))
    found = [segment.style for segment in row if words in segment.text and segment.style is not None]
    return {(style.color.name if style.color else "", bool(style.bold), bool(style.dim), bool(style.reverse)) for style in found}


@pytest.mark.parametrize("size", [SMALL, LARGE])
async def test_stale_figures_are_dim_and_the_trouble_is_not(size: tuple[int, int]) -> None:
    def hang(control: SceneControl) -> None:
        control.hang.clear()
        control.change()

    steps = Step(see=("6 PROBLEMS",)), Step(act=hang, see=("STALE 40s: readdir of new does not answer",))
    [rows] = await draw(Scene("", paused, steps), [size])
    assert not any(word in text(rows).splitlines()[0] for word in ("PAUSED", "live"))
    boxes = next(row for row in rows if "+1.8/s" in "".join(segment.text for segment in row))
    figures = [one.style for one in boxes if one.text.strip(" │") and "│" not in one.text and one.style is not None]
    assert figures and all(style.dim for style in figures[: len(figures) if size == SMALL else 1])
    [(_, _, dim, _)] = styles(rows, "✗", "2 claims of dead")
    assert not dim


@pytest.mark.parametrize("colour", [True, False])
async def test_a_chosen_row_keeps_the_colour_of_its_verdict(colour: bool) -> None:
    steps = Step(("3",), ("presence lock is free",)), Step(("space", "g"), ("1 marked",))
    [rows] = await draw(Scene("", steps=steps), [SMALL], colour=colour)
    chosen, other = styles(rows, "DEAD", "4312 worker.py"), styles(rows, "DEAD", "4313 worker.py")
    [(shade, bold, _, reverse)], [(plain, weight, _, is_reverse)] = chosen, other
    assert (shade, bold) == (plain, weight) and (reverse, is_reverse) == (True, False)
    assert bool(shade and shade != "default") is colour and bold
    assert {one[3] for one in styles(rows, "exited", "4312 worker.py")} == {True}


@pytest.mark.parametrize(
    ("write", "lock", "writer"),
    [
        ({}, "not seen", "not seen"),
        ({"lock_there": True}, "not seen", "not seen"),
        ({"lock_there": False}, "nobody", "not seen"),
        ({"held_by": (LockHolder(77, "python3 /opt/poll.py"),)}, "77 poll.…", "not seen"),
        ({"writer": LockHolder(4290, "python3 /opt/memex/poll_email.py")}, "not seen", "4290 poll_email…"),
        ({"writer": LockHolder(4290)}, "not seen", "4290"),
        ({"writer": LockHolder(4290), "held_by": (LockHolder(4290),)}, "by writer", "4290"),
        ({"writer": LockHolder(4290), "held_by": (LockHolder(77, "poller"),)}, "77 poller", "4290"),
    ],
)
async def test_a_write_says_who_held_the_lock_and_who_wrote_only_where_that_was_seen(
    write: dict[str, Any], lock: str, writer: str
) -> None:
    whole = values.trouble()
    history: tuple[CursorSection, ...] = tuple(replace(one, **write) for one in whole.cursors[2].history)
    cursors = (*whole.cursors[:2], replace(whole.cursors[2], history=history), *whole.cursors[3:])
    lines = await drawn(replace(whole, cursors=cursors), "5 j j enter", see=("5117 → 5120",))
    title = next(line for line in lines if "also changed" in line)
    row = next(line for line in lines if "5117 → 5120" in line)
    assert (row[title.index("lock") : title.index("writer")].strip(), row[title.index("writer") :].strip()) == (lock, writer)


async def test_a_result_names_each_that_was_not_done_the_failed_first() -> None:
    class Half(SceneControl):
        def apply(self, plan: Plan, *args: Any, **more: Any) -> Result:
            outcomes = (Outcome.DONE, ""), (Outcome.SKIPPED, "gone meanwhile"), (Outcome.FAILED, "in new already")
            items = [ItemResult(f"a{n}", f"a{n}", outcome, why) for n, (outcome, why) in enumerate(outcomes)]
            return replace(super().apply(plan, *args, **more), items=items)

    steps = Step(("r",), ("y requeue 2",)), Step(("y",), ("done 1 · skipped 1 · failed 1",))
    [rows] = await draw(Scene("", steps=steps), [SMALL], opened=Half)
    screen = text(rows)
    words = "failed 1: in new already", "skipped 1: gone meanwhile", "undo: spooltop undo"
    assert [screen.index(one) for one in words] == sorted(screen.index(one) for one in words)
    assert "a1" in screen and "a2" in screen


@pytest.mark.parametrize(
    ("row", "facts", "words", "other"),
    [
        (WHILE_HELD, (), "5m ago · held 5m", "claimed"),
        (UNKNOWN_PUT, (), "enqueued not known", " ago"),
        (DEAD, (("enqueued", "2026-11-20 23:59:01 +0100 · claimed 2026-11-21 02:00:03 +0100"),), "claimed 2026-11-21", "STALE"),
        (DEAD, (("enqueued", "2026-11-21 01:20:07 +0100"), ("holder", "exited")), "verdict  DEAD: exited", "holder "),
        (DEAD, (), " … the first 22 of 1,200 bytes", "\x1b"),
    ],
)  # fmt: skip
async def test_what_a_reader_tells_is_shown_once(row: Row, facts: tuple[tuple[str, str], ...], words: str, other: str) -> None:
    class Reader(SceneControl):
        def read(self, key: Key, limit: int = 65536) -> Payload:
            return Payload(b'{\n  "rowid": 1\n}\n\x1b[31m', 1200, True, facts)

    screen = "\n".join(await drawn(claimed(row), "3 enter", see=(words,), opened=Reader))
    assert other not in screen and r"\x1b[31m" in screen and '   "rowid": 1' in screen
