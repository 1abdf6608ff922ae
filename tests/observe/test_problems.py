"""Problems and rates: each rule reports its problem, and stays silent if it could only guess; rates are over what was watched."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from spooltop.errors import UsageError
from spooltop.model import query
from spooltop.model.snapshot import (
    AGE_BOUNDS,
    CODES,
    Ages,
    BoxState,
    Completion,
    ConsumerList,
    ConsumerRow,
    Disk,
    Flow,
    HolderFlow,
    Observation,
    Pause,
    Problem,
    Severity,
    VerdictCounts,
    Viewer,
)
from spooltop.model.vocabulary import Box, Lock, LockHolder, Owner, Row, Verdict, cells
from spooltop.observe.flow import CELL, RateWindow, TrendWatch
from spooltop.observe.observer import Observer
from spooltop.observe.thresholds import Thresholds

from .observations import T0, claim, flow, look, temporary

LONG_AGO = -2460.0
GB = 10**9


def raised(*observations: Observation, thresholds: Thresholds | None = None) -> dict[str, Problem]:
    """Problems after the last look, by code."""
    observer = Observer(thresholds)
    snapshot = [observer.add(observation) for observation in observations][-1]
    return {problem.code: problem for problem in snapshot.problems}


def waiting(until: int, *, step: int = 5, **rest: Any) -> list[Observation]:
    return [look(at, 3, flow=flow(at - step, at), **rest) for at in range(0, until + 1, step)]


@pytest.mark.parametrize(
    ("looks", "severity", "text"),
    [
        (waiting(130, consumers=0), Severity.CRITICAL, "no claim for 2m while 3 wait; no consumer is running"),
        (waiting(70, consumers=2), Severity.WARNING, "no claim for 1m while 3 wait; 2 consumers are running, idle"),
        (waiting(70, counts=VerdictCounts(alive=1)), Severity.WARNING,
         "no claim for 1m while 3 wait; 1 claim is being processed"),
        (waiting(70, counts=VerdictCounts(unknown=2)), Severity.WARNING,
         "no claim for 1m while 3 wait; 2 claims of unknown holders"),
        ([look(0, 5, oldest=180.0, consumers=0)], Severity.CRITICAL, "no consumer is running while 5 wait for 3m"),
    ],
    ids=["nobody", "idle ones", "one at work", "unknown ones", "a single look"],
)  # fmt: skip
def test_that_nobody_takes_work_is_told_after_a_minute(looks: list[Observation], severity: Severity, text: str) -> None:
    """Where somebody may be at work it only warns."""
    problem = raised(*looks)["no-consumer"]
    assert (problem.severity, problem.text, problem.view) == (severity, text, "new")
    assert raised(*waiting(55)) == {}


@pytest.mark.parametrize(
    "rest",
    [
        {"consumers": 1}, {"consumers": None}, {"oldest": 59.0}, {"last_claim_at": T0 - 59}, {"counts": VerdictCounts(alive=1)},
        {"counts": VerdictCounts(unknown=1)}, {"judged_all": False},
    ],
    ids=str,
)  # fmt: skip
def test_a_single_look_accuses_nobody_where_somebody_may_be_at_work(rest: dict[str, Any]) -> None:
    assert "no-consumer" not in raised(look(0, 5, **{"oldest": 180.0, "consumers": 0, **rest}))


@pytest.mark.parametrize(
    "sign",
    [
        look(100, 3, flow=flow(95, 100, claimed=1)),
        look(100, 3, flow=flow(95, 100, done=1)),
        look(100, 2),
        look(100, 3, last_claim_at=T0 + 90),
        look(100, 3, claims=(claim("m", Verdict.ALIVE, 95),)),
        look(100, 0),
    ],
    ids=["claimed", "done", "shorter", "last claim", "stands in cur", "was empty"],
)
def test_any_sign_that_work_is_taken_silences_it(sign: Observation) -> None:
    assert "no-consumer" not in raised(*waiting(95), sign, look(101, 3), look(140, 3))
    assert "no-consumer" in raised(*waiting(95), sign, look(101, 3), look(162, 3))


def test_a_claim_from_the_future_is_not_fresh_for_ever() -> None:
    assert "no-consumer" in raised(look(0, 3, last_claim_at=T0 + 9e6), *[look(at, 3) for at in (1, 70)])


def growing(seconds: int, **rest: Any) -> list[Observation]:
    return [look(at, 4000 + 2 * at, oldest=420.0, last_claim_at=T0 + at, **rest) for at in range(0, seconds + 1, 5)]


@pytest.mark.parametrize(
    ("rest", "severity", "end"),
    [
        ({"consumers": 1}, Severity.CRITICAL, "1 consumer takes work"),
        ({"paused": Pause("root", T0)}, Severity.WARNING, "paused by root for 5m"),
    ],
)
def test_growth_is_told_over_its_window(rest: dict[str, Any], severity: Severity, end: str) -> None:
    assert "new-growing" not in raised(*growing(55, **rest))
    problem = raised(*growing(300, **rest))["new-growing"]
    assert (problem.severity, problem.text) == (severity, f"new grows 2.0/s over 5m, oldest waits 7m; {end}")


BY_NAME = Owner("far", 77, name="far-77-abcdef")
BOUND = (claim("a", Verdict.DEAD, LONG_AGO, since_is_bound=True),)
MANY = tuple(claim(str(n), Verdict.DEAD, -60, pid=4000 + n) for n in range(5))
BELOW = (claim("a", Verdict.DEAD, -60, attempt=2), claim("b", Verdict.ALIVE, -1, attempt=9))
POISON = (*BELOW, claim("c", Verdict.DEAD, -60, attempt=4))
SERVED = tuple(replace(claim(f"1-{n}", Verdict.DEAD, -60, attempt=n), owner=BY_NAME) for n in (4, 5))
LONG = (claim("a", Verdict.ALIVE, -3300, pid=5200, command="worker.py"), claim("b", Verdict.ALIVE, -599, pid=1))
UNKNOWN = claim("a", Verdict.UNKNOWN, -480, pid=4242, evidence="no pid 4242 here", since_is_bound=True)
OLD = claim("a", Verdict.UNKNOWN, -601, evidence="its claim names nobody")
BLOCKED = Lock("/s/a.lock", "flock", (LockHolder(5200, "worker.py", since=T0),), (LockHolder(1), LockHolder(2)), "blocked")
STALE = tuple(
    Lock(f"/s/{n}.lock", "soft", (LockHolder(7, since=T0 - 301),), verdict="stale", evidence="pid 7 has exited") for n in range(3)
)
FIFO = Row(key="f", box=Box.NEW, id="f", name="f", note="a fifo, not a message")
PAUSE = Pause("root", T0 - 3500, "x\x1by")
FULL = Disk("ext4", 0, 30 * GB, 100, 1000, root_bytes_free=1_900_000_000)


def ahead(count: int, looked_at: int) -> dict[str, Any]:
    """90 that wait, of which the first ones were looked at, and so many of these are from the future."""
    ages = Ages(AGE_BOUNDS, (looked_at, 0, 0, 0, 0, 0), (), 1, looked_at, 90, 0, count, T0 + 7200)
    return {"new": 90, "oldest": 50.0, "ages": ages}


C, W, N = Severity.CRITICAL, Severity.WARNING, Severity.NOTE


@pytest.mark.parametrize(
    ("at", "rest", "code", "severity", "text", "selection"),
    [
        (0, {"claims": BOUND}, "claims-dead", C, "1 claim of a dead consumer, held ≤41m", "--box cur --verdict dead"),
        (LONG_AGO + 5, {"claims": BOUND}, "claims-dead", C, "1 claim of a dead consumer, held ≤5s", "--box cur --verdict dead"),
        (0, {"claims": MANY, "counts": VerdictCounts(dead=4310), "judged_all": False}, "claims-dead", C,
         "≥4,310 claims of dead consumers, pid 4000 and 4 more, longest 1m", "--box cur --verdict dead"),
        (0, {"claims": POISON}, "poison", C, "4 consumers died while processing c", "--box cur c"),
        (0, {"claims": (*POISON, claim("d", Verdict.DEAD, -9, attempt=3))}, "poison", C,
         "2 messages with 3 or more dead consumers each, one with 4", "--box cur c d"),
        (0, {"claims": SERVED[:1]}, "poison", C, "1-4 was delivered 4 times, and its last consumer died", "--box cur 1-4"),
        (0, {"claims": SERVED}, "poison", C, "2 messages of dead consumers were delivered 3 times or more, one 5 times",
         "--box cur 1-4 1-5"),
        (0, {"claims": LONG}, "claim-long", W, "1 claim held 55m by 5200 worker.py: alive",
         "--box cur --verdict alive --older-than 600s"),
        (30, {"claims": LONG}, "claim-long", W, "2 claims held long by running consumers, longest 55m by 5200 worker.py",
         "--box cur --verdict alive --older-than 600s"),
        (0, {"claims": (OLD,), "proves_death": False}, "claim-long", W,
         "1 claim held 10m, holder unknown: its claim names nobody", "--box cur --verdict unknown --older-than 600s"),
        (0, {"claims": (OLD,), "claim_long": 60.0}, "claim-long", W,
         "1 claim held 10m, holder unknown: its claim names nobody", "--box cur --verdict unknown --older-than 60s"),
        (2, {"claims": (OLD, replace(OLD, key="b", in_box_since=T0 - 599))}, "claim-long", W,
         "2 claims held long by unknown holders, longest 10m", "--box cur --verdict unknown --older-than 600s"),
        (0, {"claims": (UNKNOWN,)}, "claims-unknown", N, "1 claim of unknown holders, held ≤8m: no pid 4242 here",
         "--box cur --verdict unknown"),
        (0, {"clock_jumped": 7200.0}, "clock-skew", W, "the clock jumped forward by 2h: ages from before it are wrong", None),
        (0, {"clock_jumped": -60.0}, "clock-skew", W, "the clock jumped back by 1m: ages from before it are wrong", None),
        (0, {"claims": (claim("a", Verdict.ALIVE, 7200),)}, "clock-skew", N,
         "1 message is dated up to 2h in the future: clocks differ", None),
        (150, {"locks": (BLOCKED,)}, "lock-blocked", W, "a.lock held 2m by 5200 worker.py, 2 wait", None),
        (0, {"locks": STALE}, "lock-stale", W, "stale lock 0.lock and 2 more", None),
        (0, {"disk": FULL, "who": Viewer("memex", 1000)}, "disk-full", C,
         "disk full for memex: 0B free (root still has 1.9GB); puts and claims fail", None),
        (0, {"disk": Disk("ext4", 5_000_000, 30 * GB, 500, 1000), "who": Viewer("memex", 1000)}, "disk-full", W,
         "disk nearly full for memex: 5.0MB free", None),
        (0, {"disk": Disk("ext4", 12 * GB, 30 * GB, 0, 1000)}, "disk-full", C, "no inodes free; puts fail", None),
        (0, {"disk": Disk("ext4", 20 * GB, 30 * GB, apart=(Box.TMP,))}, "fs-readonly", C,
         "tmp is on another mount than new: rename(2) does not work, so every put fails", None),
        (0, {"disk": Disk("ext4", 0, 30 * GB, readonly=True)}, "fs-readonly", C,
         "the file system is mounted read-only; nothing here can change", None),
        (0, ahead(1, 90), "clock-skew", N, "1 message is dated up to 2h in the future: clocks differ", None),
        (0, ahead(1, 60), "clock-skew", N, "1 message or more is dated up to 2h in the future: clocks differ", None),
        (0, {"irregular": (FIFO,)}, "conflict", N, "f in new: a fifo, not a message", "--box new f"),
        (150, {"locks_had": 94, "locks_given_up": 6}, "lock-failures", W,
         "6 of 100 attempts at the engine's own locks timed out (6% over 5m)", None),
        (100, {"paused": PAUSE}, "paused", W, "paused by root for 1h: x\\x1by", None),
    ],
)  # fmt: skip
def test_each_problem_that_one_look_shows(
    at: float, rest: dict[str, Any], code: str, severity: Severity, text: str, selection: str | None
) -> None:
    problem = raised(look(at, **rest))[code]
    assert (problem.severity, problem.text) == (severity, text)
    chosen = problem.selection
    assert (None if chosen is None else " ".join([*chosen.words(), *map(str, chosen.keys or ())])) == selection


@pytest.mark.parametrize(
    ("at", "rest"),
    [
        (0, {"new": 7, "oldest": 600.0}), (0, {"claims": BELOW[1:]}),
        (0, {"claims": (OLD,), "claim_long": 7200.0, "proves_death": False}),
        (0, {"claims": (claim("a", Verdict.UNKNOWN, -599),), "proves_death": False}),
        (0, {"claims": (claim("a", Verdict.ALIVE, 3),)}),
        *((0, {"disk": disk}) for disk in (
            Disk("ext4", 12 * GB, 30 * GB, 100, 1000), Disk("tmpfs", 5_000_000, 10_000_000, 500, 1000),
            Disk("btrfs", 12 * GB, 30 * GB, 0, 0), Disk("ext4", 20 * GB, 30 * GB, readonly=True, readonly_here=True))),
        (60, {"locks": (BLOCKED,)}), (-2, {"locks": STALE}), (86400, {"locks": (replace(BLOCKED, verdict="held", waiters=()),)}),
        (150, {"locks_had": 17, "locks_given_up": 2}), (150, {"locks_had": 95, "locks_given_up": 5}), (0, {"paused": PAUSE}),
    ],
)  # fmt: skip
def test_up_to_its_limit_nothing_is_a_problem(at: float, rest: dict[str, Any]) -> None:
    snapshot = Observer().add(look(at, **rest))
    assert snapshot.problems == () and not snapshot.lock_problems


def test_a_lock_past_its_limit_is_named_by_its_path() -> None:
    snapshot = Observer().add(look(61, locks=(replace(BLOCKED, waiters=BLOCKED.waiters[:1]), STALE[0])))
    assert dict(snapshot.lock_problems) == {BLOCKED.path: "lock-blocked", STALE[0].path: "lock-stale"}
    assert [(problem.view, problem.subject) for problem in snapshot.problems] == [
        ("locks", BLOCKED.path), ("locks", STALE[0].path),
    ]  # fmt: skip


def test_a_lock_past_its_limit_is_named_also_where_its_path_is_listed_once_more() -> None:
    again = replace(STALE[0], verdict="unknown")
    assert Observer().add(look(61, locks=(STALE[0], again))).lock_problems == {STALE[0].path: "lock-stale"}


def test_an_old_claim_of_a_living_and_one_of_an_unknown_holder_are_two_lines() -> None:
    claims = (claim("a", Verdict.ALIVE, -601), claim("b", Verdict.UNKNOWN, -601), claim("c", Verdict.UNKNOWN, -1))
    problems = Observer().add(look(0, claims=claims)).problems
    assert [(one.code, one.count) for one in problems] == [("claim-long", 1), ("claim-long", 1), ("claims-unknown", 2)]
    kind = {"claim_long": 60.0}
    assert "claim-long" in raised(look(0, claims=(claim("a", Verdict.ALIVE, -61),), **kind)), "of its kind for the living too"


def test_a_line_selects_as_many_as_it_says() -> None:
    """The selection of a line, read as the filter would, takes the very rows that the line counts."""
    rows = (
        claim("a", Verdict.DEAD, LONG_AGO, attempt=3),
        claim("b", Verdict.ALIVE, -601),
        claim("c", Verdict.ALIVE, -599),
        claim("d", Verdict.UNKNOWN, -3),
    )
    files = (temporary("e", Verdict.ABANDONED, -3), temporary("f", Verdict.UNKNOWN, -301), temporary("g", Verdict.UNKNOWN, -299))
    found = raised(look(0, claims=rows, tmp=files))
    assert set(found) == {"poison", "claims-dead", "claim-long", "claims-unknown", "tmp-abandoned", "tmp-old"}
    for problem in found.values():
        chosen = problem.selection
        assert chosen is not None
        terms = f"verdict:{chosen.verdict}" * bool(chosen.verdict) + f" age:>{chosen.older_than}s" * bool(chosen.older_than)
        taken = [row for row in (*rows, *files) if row.box is chosen.box and query.parse(terms).match(row, T0)]
        if chosen.keys is not None:
            taken = [row for row in taken if row.key in chosen.keys]
        assert len(taken) == problem.count, problem.code


def test_what_cannot_be_seen_comes_first() -> None:
    observer = Observer()
    states = [BoxState(Box.NEW, None, complete=False, error="permission denied")]
    snapshot = observer.add(look(0, complete=False, states=states, claims=(claim("a", Verdict.DEAD, LONG_AGO),)))
    assert snapshot.problems[0].text == "new: permission denied"
    assert [problem.code for problem in snapshot.problems] == ["blind", "claims-dead"]
    assert snapshot.not_visible == ("new (permission denied)", "free space")


def test_in_a_mail_folder_nothing_is_stuck() -> None:
    claims = (claim("a", Verdict.UNKNOWN, -9e6), claim("b", Verdict.DEAD, -9e6))
    more = {"layout": "mail", "oldest": 9e6, "claims": claims, "tmp": (temporary("t", Verdict.UNKNOWN, -9e6),)}
    assert raised(*(look(at, 50, **more) for at in (0, 60, 130))) == {}


def test_after_a_jump_watching_begins_anew() -> None:
    observations = [*waiting(100), look(7300, 3, clock_jumped=7200.0)]
    assert set(raised(*observations)) == {"clock-skew"}
    assert "no-consumer" in raised(*observations, look(7361, 3, clock_jumped=7200.0))


def test_lines_stand_still_between_two_steps_of_an_age() -> None:
    claims = (claim("a", Verdict.DEAD, -3000, pid=4312), claim("b", Verdict.ALIVE, -3000, pid=1, command="worker.py"))
    tmp = (temporary("t", Verdict.ABANDONED, -3000),)
    observer = Observer()
    lines = {observer.add(look(at, 0, claims=claims, tmp=tmp)).problems for at in range(60)}
    assert len(lines) == 1


def test_problems_come_in_the_order_of_the_codes_and_short() -> None:
    claims = (
        claim("1795222801446548.P4290R0123456789abcdef.a-rather-long-host-name", Verdict.DEAD, LONG_AGO, pid=4312, attempt=4),
        claim("1795222801446549.P4290R0123456789abcdef.a-rather-long-host-name", Verdict.DEAD, -60, pid=4313, attempt=3),
        claim("b", Verdict.ALIVE, -3300, pid=5200, command="a-very-long-command-name-of-a-worker.py"),
        claim("c", Verdict.UNKNOWN, -3300, pid=5201),
    )
    observer = Observer()
    for at in range(0, 320, 5):
        snapshot = observer.add(
            look(
                at, 4310 + 2 * at, oldest=900.0, consumers=0, claims=claims, tmp=(temporary("t", Verdict.ABANDONED, -9000),),
                disk=Disk("ext4", 5_000_000, 30 * GB, 100, 1000), conflicts=("x",),
            )
        )  # fmt: skip
    codes = [problem.code for problem in snapshot.problems]
    assert codes == sorted(codes, key=CODES.index)
    assert set(codes) >= {"disk-full", "no-consumer", "poison", "claims-dead", "new-growing", "new-old", "claim-long", "conflict"}
    assert max(cells(problem.text) for problem in snapshot.problems) <= 68


NAME = st.text(alphabet=st.characters(codec=None), min_size=1, max_size=8)


@given(
    NAME, NAME, st.sampled_from(list(Verdict)), st.floats(min_value=-1e9, max_value=1e9), st.integers(min_value=0, max_value=9)
)
def test_no_name_gets_through_unescaped(name: str, command: str, verdict: Verdict, since: float, attempt: int) -> None:
    rows = tuple(
        claim(f"{name}{n}", verdict, since, pid=n, command=command, attempt=attempt, evidence=command, note=name)
        for n in range(2)
    )
    lock = Lock(f"/s/{name}", "flock", (LockHolder(1, command, since=T0 - 900),), (LockHolder(2),), "stale", command)
    state = BoxState(Box.TMP, None, error=command)
    viewer = Viewer(command, 1)
    observation = look(0, claims=rows[:1], irregular=rows[:1], locks=(lock,), states=[state], who=viewer, disk=Disk("x", 0, GB))
    observer = Observer()
    for problem in observer.add(observation).problems + observer.add(look(1, claims=rows, irregular=rows)).problems:
        assert problem.text.isprintable()


def test_thresholds_are_settings() -> None:
    changed = Thresholds.from_settings(
        {"SPOOLTOP_CLAIM_LONG": "15s", "SPOOLTOP_POISON_DEATHS": "2", "SPOOLTOP_ID": "x", "HOME": "/"}
    )
    assert changed == Thresholds(claim_long=15.0, poison_deaths=2)
    assert "claim-long" in raised(look(0, claims=(claim("a", Verdict.ALIVE, -16),)), thresholds=changed)
    twice = look(0, claims=BELOW)
    assert "poison" in raised(twice, thresholds=changed) and "poison" not in raised(twice)
    assert Thresholds.from_settings({}) == Thresholds()
    assert raised(look(100, paused=PAUSE), thresholds=Thresholds.from_settings({"SPOOLTOP_PAUSED_LONG": "2h"})) == {}


@pytest.mark.parametrize(
    "settings", [{"SPOOLTOP_CLAIM_LONG": "soon"}, {"SPOOLTOP_POISON_DEATHS": "2.5"}, {"SPOOLTOP_DISK_LOW": "-1"}]
)
def test_a_wrong_setting_is_named(settings: dict[str, str]) -> None:
    with pytest.raises(UsageError, match=next(iter(settings))):
        Thresholds.from_settings(settings)


def test_nobody_is_missed_while_a_spool_is_paused_nor_for_the_time_of_the_pause() -> None:
    pause = Pause("root", T0)
    paused = [look(at, 3, oldest=600.0 + at, consumers=0, paused=pause) for at in range(0, 131, 5)]
    assert set(raised(*paused)) == {"new-old"} and "no-consumer" not in Observer().add(paused[0]).not_judged_codes
    resumed = [look(at, 3, oldest=600.0 + at, consumers=1) for at in range(135, 206, 5)]
    assert "no-consumer" not in raised(*paused, *resumed[:11])
    assert raised(*paused, *resumed)["no-consumer"].text.startswith("no claim for 1m while 3 wait")


@pytest.mark.parametrize("judged_all", [True, False])
def test_unknown_holders_are_a_lower_bound_until_every_claim_is_judged(judged_all: bool) -> None:
    problem = raised(look(0, claims=(claim("a", Verdict.UNKNOWN, -1),), judged_all=judged_all))["claims-unknown"]
    assert problem.at_least is not judged_all


Step = tuple[float, float, int, int, bool]
"""A flow: when it began and ended, arrived, done, and whether it was told exactly."""


def steady(since: int, until: int, step: int, arrived: int, done: int = 0) -> list[Step]:
    return [(at, at + step, arrived, done, True) for at in range(since, until, step)]


@pytest.mark.parametrize(
    ("flows", "window", "in_per_s", "done_per_s", "bound"),
    [
        ([(0, 10, 20, 5, True)], 10.0, 2.0, 0.5, False),
        ([(0, 10, 20, 5, True), *steady(10, 180, 10, 10), (180, 190, 10, 0, False)], 60.0, 1.0, 0.0, True),
        ([(0, 1, 3, 0, False)], 1.0, 3.0, 0.0, True),
        ([(0, 1, 3, 0, False), (1, 6, 10, 0, True)], 6.0, 13 / 6, 0.0, True),
        ([(0, 1, 3, 0, False), (1, 6, 10, 0, True), (6, 11, 10, 0, True)], 10.0, 2.0, 0.0, False),
        ([(0, 1, 3, 0, False), (1, 6, 10, 0, True), (6, 11, 10, 0, True), (11, 13, 1, 0, False)], 12.0, 1.75, 0.0, True),
        ([(0, 20, 2000, 0, False), (20, 21, 100, 2000, True), *steady(21, 32, 1, 100, 100)], 12.0, 100.0, 100.0, False),
        ([(0, 1, 100, 0, False), (1, 61.5, 6050, 100, False)], 60.5, 100.0, 100.0, True),
        ([(0, 1, 100, 0, False), (1, 61.5, 6050, 100, False), (61.5, 62.5, 100, 6050, True)], 1.0, 100.0, 100.0, False),
    ],
    ids=["one look", "the last minute", "in part", "too short to be exact", "exact and long enough", "a gap again",
         "what left before the window", "nobody read for a minute", "after that"],
)  # fmt: skip
def test_rates_are_over_a_window_that_was_watched(
    flows: list[Step], window: float, in_per_s: float, done_per_s: float, bound: bool
) -> None:
    """The longest up to a minute that was told exactly, if it is long enough."""
    observer = Observer()
    observer.add(look(0))
    for since, until, arrived, done, exact in flows:
        rates = observer.add(look(until, flow=flow(since, until, arrived=arrived, done=done, exact=exact))).rates
    assert (rates.window, rates.in_per_s, rates.done_per_s) == (window, pytest.approx(in_per_s), done_per_s)
    assert rates.lower_bound is bound


def test_no_window_reaches_across_a_gap() -> None:
    observer = Observer()
    observer.add(look(10, flow=flow(0, 10, arrived=1000)))
    assert observer.add(look(40, flow=Flow(T0 + 10, T0 + 40))).rates.arrived is None
    assert observer.add(look(50, flow=flow(40, 50, arrived=1))).rates.in_per_s == pytest.approx(0.1)


def test_a_clock_set_back_begins_anew_and_two_looks_at_one_instant_do_not() -> None:
    observer = Observer()
    observer.add(look(0))
    before, again = (observer.add(look(100, 5, flow=flow(0, 100, arrived=1000))) for _ in range(2))
    assert (again.rates.slope_window, again.history) == (before.rates.slope_window, before.history)
    assert before.rates.slope_window == 100.0
    snapshot = observer.add(look(-7200, 5, flow=flow(-7210, -7200, arrived=1)))
    assert snapshot.rates.arrived == 1
    assert [cell for cell in snapshot.history[Box.NEW] if cell is not None] == [5.0]
    assert set(snapshot.rate_history.arrived) <= {None, 0.1}


def test_percentiles_need_twenty_samples_and_say_how_many() -> None:
    observer = Observer()
    completions = tuple(Completion(T0, T0 + n, T0 + n + 0.5) for n in range(1, 20))
    few = observer.add(look(25, flow=flow(15, 25, done=19, completions=completions))).rates
    assert (few.waited.samples, few.waited.p50) == (19, None)
    more = observer.add(look(26, flow=flow(25, 26, done=1, completions=(Completion(T0, T0 + 20, T0 + 20.5),)))).rates
    assert (more.waited.samples, more.waited.p50, more.waited.p99) == (20, 10.0, 20.0)
    assert more.worked.p95 == 0.5
    backward = [Completion(T0 + 50, T0, T0 + 1), Completion(None, None, T0 + 1), Completion(None, T0, T0 + 1)]
    rates = Observer().add(look(1, flow=flow(0, 1, done=3, completions=tuple(backward)))).rates
    assert (rates.waited.samples, rates.worked.samples) == (0, 2), "passages of two clocks are no samples"


def test_a_slow_spool_tells_of_its_last_twenty() -> None:
    observer = Observer()
    for n in range(30):
        at = 60.0 * n
        passage = Completion(T0 + at - 300, T0 + at - 200, T0 + at)
        rates = observer.add(look(at, flow=flow(at - 60, at, done=1, completions=(passage,)))).rates
    assert (rates.waited.samples, rates.waited.p50, rates.worked.p50) == (20, 100.0, 200.0)
    assert observer.add(look(9000, flow=flow(8990, 9000))).rates.waited.samples == 0


def test_a_slope_needs_half_a_minute_without_a_depth_that_was_not_seen() -> None:
    observer = Observer()
    for at in range(0, 30, 5):
        assert observer.add(look(at, 2 * at)).rates.new_per_s is None
    rates = observer.add(look(30, 60)).rates
    assert (rates.new_per_s, rates.slope_window) == (pytest.approx(2.0), 30.0)
    observer.add(look(60, None, states=[BoxState(Box.NEW, None, error="permission denied")]))
    assert observer.add(look(65, 5000)).rates.new_per_s is None


@pytest.mark.parametrize(
    ("name", "depths", "growing"),
    [
        ("grows", [100 + 2 * n for n in range(60)], True),
        ("stands", [4000] * 60, False),
        ("falls", [4000 - n for n in range(60)], False),
        ("swings", [100 + (40 if n % 2 else 0) for n in range(60)], False),
        ("one big put stands", [0] * 30 + [1000] * 30, False),
        ("one big put is worked off", [0] * 10 + [1000 - 20 * n for n in range(50)], False),
        ("grows by three", [n // 20 for n in range(60)], False),
        ("grows with noise", [100 + 2 * n + 7 * (n % 3) for n in range(60)], True),
    ],
)
def test_growth_stands_out_of_noise_and_goes_on(name: str, depths: list[int], growing: bool) -> None:
    watch = TrendWatch()
    for n, depth_then in enumerate(depths):
        watch.add(T0 + 5 * n, depth_then)
    assert watch.trend().growing is growing


def test_bars_keep_the_highest_and_show_what_was_not_watched() -> None:
    observer = Observer()

    def cells(at: float, depth: int | None) -> tuple[float | None, ...]:
        return observer.add(look(at, depth)).history[Box.NEW]

    for at, count in ((0, 3), (5, 9), (10, 2), (20, 4)):
        cells(at, count)
    assert cells(50, 1)[-5:] == (None, 9.0, 4.0, 4.0, 1.0)
    assert cells(200, 7)[-11:] == (1.0, *[None] * 9, 7.0)  # too long without a look to say what was in between
    assert set(cells(1000, None)) == {None}


def test_rates_of_each_cell_are_over_what_was_watched_of_it() -> None:
    observer = Observer()
    assert set(observer.add(look(0)).rate_history.arrived) == {None}
    start = -T0 % CELL  # the first edge of a cell
    history = observer.add(look(start + 30, flow=flow(start, start + 30, arrived=60, retried=15))).rate_history
    assert history.arrived[-3:] == (2.0, 2.0, None) and history.retried[-3:] == (0.5, 0.5, None)
    assert set(history.done) == {None}, "what left in this flow is told by the next one"
    history = observer.add(look(start + 35, flow=flow(start + 30, start + 35, arrived=0, done=30))).rate_history
    assert history.arrived[-3:] == (2.0, 2.0, 0.0)
    assert history.done[-3:] == (1.0, 1.0, None)
    history = observer.add(look(start + 65, flow=Flow())).rate_history
    assert history.arrived[-5:] == (2.0, 2.0, 0.0, None, None), "a gap is not watched, which is not 0"


A = "a" * 32
SECONDS = [(at, at + 1, {A: HolderFlow(2)}) for at in range(100)]


@pytest.mark.parametrize(
    ("flows", "token", "start", "rates"),
    [
        ([], A, None, (None, None, 3.0)),
        ([(0, 1, {A: HolderFlow(5, 5, 9.0)})], A, None, (None, None, 9.0)),
        ([(0, 10, {}), (10, 11, {A: HolderFlow(20, 5)})], A, None, (2.0, 0.5, 3.0)),
        ([(0, 10, {}), (10, 11, {A: HolderFlow(20, 5)})], None, None, (0.0, None, 3.0)),
        ([(0, 10, {}), (10, 11, {}), (11, 20, {"P77": HolderFlow(11)})], None, None, (1.0, None, 3.0)),
        ([(0, 40, {}), (40, 41, {A: HolderFlow(20)})], A, 30.0, (2.0, 0.0, 3.0)),
        ([(0, 40, {}), (40, 41, {A: HolderFlow(20)})], A, 39.9, (20.0, 0.0, 3.0)),
        ([(0, 40, {}), (40, 41, {A: HolderFlow(20)})], A, 500.0, (0.5, 0.0, 3.0)),
        (SECONDS, A, None, (2.0, 0.0, 3.0)),
        ([*SECONDS, None], A, None, (None, None, 3.0)),
    ],
    ids=["nothing watched is not zero", "what left before anybody watched", "what left during the flow before", "another one",
         "by its pid", "from its start on", "started just now", "by another clock", "the last minute", "a gap forgets"],
)  # fmt: skip
def test_a_rate_of_a_consumer_is_over_what_was_watched(
    flows: list[tuple[float, float, dict[str, HolderFlow]] | None], token: str | None, start: float | None,
    rates: tuple[float | None, float | None, float | None],
) -> None:  # fmt: skip
    watch = RateWindow()
    for each in flows:
        watch.add(Flow(100, 110) if each is None else Flow(*each[:2], measured=True, by_holder=each[2]))
    row = ConsumerRow(Verdict.ALIVE, "running", Owner(pid=77, start=start), token, last_claim_at=3.0)
    [consumer] = watch.measured(ConsumerList((row,))).consumers
    assert (consumer.rate.done, consumer.rate.failed, consumer.last_claim_at) == rates
