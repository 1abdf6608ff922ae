"""Problems: each rule reports its problem, and stays silent if it could only guess."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spooltop.errors import UsageError
from spooltop.model.filters import query
from spooltop.model.look.capacity import Disk
from spooltop.model.look.locks import Lock, LockHolder
from spooltop.model.look.observation import AGE_BOUNDS, Ages, BoxState, Observation, VerdictCounts, Viewer
from spooltop.model.look.pause import Pause
from spooltop.model.look.problem import CODES, Problem, Severity
from spooltop.model.row import Row
from spooltop.model.units import cells
from spooltop.model.vocabulary import Box, Owner, Verdict
from spooltop.observe import Observer, Thresholds

from .observations import T0, claim, flow, look, temporary

LONG_AGO = -2460.0
GB = 10**9


def raised(*observations: Observation, thresholds: Thresholds | None = None) -> dict[str, Problem]:
    """Problems after the last look, by code."""
    observer = Observer(thresholds)
    snapshot = [observer.add(observation) for observation in observations][-1]
    return {problem.code: problem for problem in snapshot.problems}


def test_a_quiet_spool_has_none() -> None:
    assert raised(look(0), look(100), look(3600)) == {}


# --- who takes work ---


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


# --- what one look shows ---

BY_NAME = Owner("far", 77, name="far-77-abcdef")
DEAD = (*(claim(str(pid), Verdict.DEAD, at, pid=pid) for pid, at in ((4312, LONG_AGO), (4313, -9))), claim("c", Verdict.ALIVE, 0))
BOUND = (claim("a", Verdict.DEAD, LONG_AGO, since_is_bound=True),)
MANY = tuple(claim(str(n), Verdict.DEAD, -60, pid=4000 + n) for n in range(5))
BELOW = (claim("a", Verdict.DEAD, -60, attempt=2), claim("b", Verdict.ALIVE, -1, attempt=9))
POISON = (*BELOW, claim("c", Verdict.DEAD, -60, attempt=4))
SERVED = tuple(replace(claim(f"1-{n}", Verdict.DEAD, -60, attempt=n), owner=BY_NAME) for n in (4, 5))
LONG = (claim("a", Verdict.ALIVE, -3300, pid=5200, command="worker.py"), claim("b", Verdict.ALIVE, -599, pid=1))
UNKNOWN = claim("a", Verdict.UNKNOWN, -480, pid=4242, evidence="no pid 4242 here", since_is_bound=True)
OLD = claim("a", Verdict.UNKNOWN, -601, evidence="its claim names nobody")
TMP = tuple(
    temporary(name, verdict, since)
    for name, verdict, since in (
        ("a", Verdict.ABANDONED, -720), ("b", Verdict.ABANDONED, -5), ("c", Verdict.WRITING, -5000),
        ("d", Verdict.UNKNOWN, -80000), ("e", Verdict.UNKNOWN, -5),
    )
)  # fmt: skip
BLOCKED = Lock("/s/a.lock", "flock", (LockHolder(5200, "worker.py", since=T0),), (LockHolder(1), LockHolder(2)), "blocked")
STALE = tuple(
    Lock(f"/s/{n}.lock", "soft", (LockHolder(7, since=T0 - 301),), verdict="stale", evidence="pid 7 has exited") for n in range(3)
)
FIFO = Row(key="f", box=Box.NEW, id="f", name="f", note="a fifo, not a message")
PAUSE = Pause("root", T0 - 3500, "x\x1by")
GONE = BoxState(Box.TMP, None, complete=False, error="is missing")
FULL = Disk("ext4", 0, 30 * GB, 100, 1000, root_bytes_free=1_900_000_000)


def ahead(count: int, looked_at: int) -> dict[str, Any]:
    """90 that wait, of which the first ones were looked at, and so many of these are from the future."""
    ages = Ages(AGE_BOUNDS, (looked_at, 0, 0, 0, 0, 0), (), 1, looked_at, 90, 0, count, T0 + 7200)
    return {"new": 90, "oldest": 50.0, "ages": ages}


C, W, N = Severity.CRITICAL, Severity.WARNING, Severity.NOTE


@pytest.mark.parametrize(
    ("at", "rest", "code", "severity", "text", "selection"),
    [
        (0, {"new": 7, "oldest": 725.0}, "new-old", W, "the oldest of 7 in new waits 12m", "--box new --older-than 600s"),
        (0, {"claims": DEAD}, "claims-dead", C, "2 claims of dead consumers, pid 4312 and 4313, longest 41m",
         "--box cur --verdict dead"),
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
        (0, {"tmp": TMP}, "tmp-abandoned", W, "2 abandoned in tmp, oldest 12m", "--box tmp --verdict abandoned"),
        (0, {"tmp": TMP}, "tmp-old", W, "1 in tmp for over 5m, writer unknown, oldest 22h",
         "--box tmp --verdict unknown --older-than 300s"),
        (0, {"states": [GONE]}, "blind", W, "tmp is missing", None),
        (0, {"clock_jumped": 7200.0}, "clock-skew", W, "the clock jumped forward by 2h: ages from before it are wrong", None),
        (0, {"clock_jumped": -60.0}, "clock-skew", W, "the clock jumped back by 1m: ages from before it are wrong", None),
        (0, {"claims": (claim("a", Verdict.ALIVE, 7200),)}, "clock-skew", N,
         "1 message is dated up to 2h in the future: clocks differ", None),
        (150, {"locks": (BLOCKED,)}, "lock-blocked", W, "a.lock held 2m by 5200 worker.py, 2 wait", None),
        (0, {"locks": STALE[:1]}, "lock-stale", W, "stale lock 0.lock: pid 7 has exited", None),
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
        (0, ahead(5, 90), "clock-skew", N, "5 messages are dated up to 2h in the future: clocks differ", None),
        (0, ahead(5, 60), "clock-skew", N, "5 messages or more are dated up to 2h in the future: clocks differ", None),
        (0, ahead(1, 60), "clock-skew", N, "1 message or more is dated up to 2h in the future: clocks differ", None),
        (0, {"conflicts": ("a",)}, "conflict", W, "1 id belongs to two messages; both are kept", None),
        (0, {"irregular": (FIFO,)}, "conflict", N, "f in new: a fifo, not a message", "--box new f"),
        (150, {"locks_had": 94, "locks_given_up": 6}, "lock-failures", W,
         "6 of 100 attempts at the engine's own locks timed out (6% over 5m)", None),
        (100, {"paused": PAUSE}, "paused", W, "paused by root for 1h: x\\x1by", None),
        (0, {"new": 7, "oldest": 725.0, "paused": Pause("root", T0, "a schema change")}, "new-old", W,
         "the oldest of 7 in new waits 12m; paused by root for 0s", "--box new --older-than 600s"),
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


@pytest.mark.parametrize(
    ("at", "lock", "code"), [(61, replace(BLOCKED, waiters=BLOCKED.waiters[:1]), "lock-blocked"), (0, STALE[0], "lock-stale")]
)
def test_a_lock_past_its_limit_is_named_by_its_path(at: float, lock: Lock, code: str) -> None:
    snapshot = Observer().add(look(at, locks=(lock,)))
    assert dict(snapshot.lock_problems) == {lock.path: code}
    assert [(one.view, one.subject) for one in snapshot.problems] == [("locks", lock.path)]


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


# --- the place ---


def test_what_cannot_be_seen_comes_first() -> None:
    observer = Observer()
    states = [BoxState(Box.NEW, None, complete=False, error="permission denied")]
    snapshot = observer.add(look(0, complete=False, states=states, claims=(claim("a", Verdict.DEAD, LONG_AGO),)))
    assert snapshot.problems[0].text == "new: permission denied"
    assert [problem.code for problem in snapshot.problems] == ["blind", "claims-dead"]
    assert snapshot.not_visible == ("new (permission denied)", "free space")


@pytest.mark.parametrize("layout", ["cursors", "tickets"])
def test_cursors_or_tickets_alone_are_not_blind(layout: str) -> None:
    states = [BoxState(box, None, error=f"{layout} alone") for box in Box]
    snapshot = Observer().add(look(0, layout=layout, states=states, disk=Disk("ext4", GB, 2 * GB)))
    assert (snapshot.problems, snapshot.not_visible, snapshot.not_judged) == ((), (), ())


def test_in_a_mail_folder_nothing_is_stuck() -> None:
    claims = (claim("a", Verdict.UNKNOWN, -9e6), claim("b", Verdict.DEAD, -9e6))
    observations = [
        look(at, 50, layout="mail", oldest=9e6, claims=claims, tmp=(temporary("t", Verdict.UNKNOWN, -9e6),))
        for at in (0, 60, 130)
    ]
    assert raised(*observations) == {}


def test_after_a_jump_watching_begins_anew() -> None:
    observations = [*waiting(100), look(7300, 3, clock_jumped=7200.0)]
    assert set(raised(*observations)) == {"clock-skew"}
    assert "no-consumer" in raised(*observations, look(7361, 3, clock_jumped=7200.0))


# --- what holds for all ---


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


# --- settings ---


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


def test_nothing_wrong_says_what_is_not_judged_yet() -> None:
    observer = Observer()
    assert observer.add(look(0)).not_judged == ("rates (need 60s)",)
    assert observer.add(look(30, flow=flow(0, 30))).not_judged == ("rates (need 60s)",)
    assert observer.add(look(61, flow=flow(30, 61))).not_judged == ()


# --- a paused spool ---


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
