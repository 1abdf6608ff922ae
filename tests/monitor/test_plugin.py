"""States of a plugin: what was not seen, or not all of it, is never OK, and each value can be a threshold."""

from __future__ import annotations

import builtins
import math
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from spooltop.cli.commands.check import VALUES, Finding, Range, State, condition, finding, kept_values
from spooltop.cursors.model import CursorSource
from spooltop.errors import UsageError
from spooltop.model.snapshot import CODES, BoxState, Disk, Observation, Problem, Severity, Snapshot, Watch
from spooltop.model.vocabulary import Box, Lock, LockHolder, Verdict
from spooltop.observe.observer import Observer
from spooltop.observe.thresholds import Thresholds
from tests.observe.observations import T0, CursorDisk, claim, flow, look, temporary

OK, WARNING, UNKNOWN, CRITICAL = State


def seen(*observations: Observation, thresholds: Thresholds | None = None) -> Snapshot:
    observer = Observer(thresholds)
    return [observer.add(one) for one in observations][-1]


def judged(text: str, *observations: Observation) -> Finding:
    """The finding of ``-c text`` after the last look."""
    return finding(seen(*observations), [condition(text, CRITICAL)])


def box(one: Box, count: int | None, **rest: Any) -> BoxState:
    return BoxState(one, count, as_of=T0, **rest)


GB = 10**9
DEAD, ALIVE, LOST = (claim(str(verdict), verdict, -60) for verdict in (Verdict.DEAD, Verdict.ALIVE, Verdict.UNKNOWN))
UNDATED = replace(ALIVE, in_box_since=None)
FREE = Disk("ext4", 5 * GB, 50 * GB, 10**6, 10**7)
AWAY = Watch("away", "no answer for 5s", since=T0, seen_at=T0 - 60)
NO_BOXES = {"boxes": {}, "layout": "cursors"}


def _cursors(path: str, error: str = "") -> CursorSource:
    disk = CursorDisk(path)
    disk.put(0, {"email": 1})
    disk.error = error
    return disk.read()


HELD = Lock("/x.lock", "flock", (LockHolder(1, since=T0),), (LockHolder(2),), "blocked")


def bare(**rest: Any) -> Observation:
    return Observation("/opt/x", rest.pop("layout"), T0, True, rest.pop("boxes"), watch=Watch("once"), **rest)


BLIND: Mapping[str, tuple[str, Observation, str]] = {
    "one look tells no growth": ("new-growing", look(0, 5), "needs --watch 60s"),
    "nor that nobody takes anything": ("no-consumer", look(0, 5), "needs --watch 60s"),
    "nor a lock that has just been seen": ("lock-blocked", look(0, locks=(HELD,)), "needs --watch 60s"),
    "a claim that may be dead": ("claims-dead", look(0, claims=(LOST, ALIVE)), "it is unknown who holds 1"),
    "nor what kills its consumers": ("poison", look(0, claims=(LOST,)), "it is unknown who holds 1"),
    "a file that may be abandoned": ("tmp-abandoned", look(0, tmp=(temporary("t", Verdict.UNKNOWN, -9),)), "who writes 1"),
    "a kind that proves nothing": ("claims-dead", look(0, claims=(LOST,), proves_death=False), "nothing here proves"),
    "and without any claim": ("claims-dead", look(0, proves_death=False), "nothing here proves"),
    "its young claims are no problem": ("claims-unknown", look(0, claims=(LOST,), proves_death=False), "nothing here proves"),
    "more claims than are judged": ("claims-dead", look(0, claims=(ALIVE,), judged_all=False), "not all holders were asked"),
    "more claims than are listed": ("claim-long", look(0, claims=(ALIVE,), claims_all=False), "not all claims were read"),
    "claims without a time": ("claim-long", look(0, claims=(UNDATED,)), "nothing here says since when"),
    "more names than are read": ("new-old", look(0, 5, oldest=1.0, complete=False), "not all of new was read"),
    "messages without a time": ("new-old", look(0, states=(box(Box.NEW, 5),)), "nothing here says when a message was put"),
    "a box that is not readable": ("claims-dead", look(0, states=(box(Box.CUR, None, error="permission denied"),)), "cur is not"),
    "a box that the kind hides": ("claims-dead", look(0, states=(box(Box.CUR, None, note="it keeps none"),)), "it keeps none"),
    "more of cur than is read": ("conflict", look(0, states=(box(Box.CUR, 3, complete=False),)), "not all of cur was read"),
    "a tmp that is not readable": ("tmp-old", look(0, states=(box(Box.TMP, None, error="is missing"),)), "tmp is not visible"),
    "attempts in names that were left out": ("failing", look(0, 5, tried_all=False), "not all attempts were read"),
    "attempts of another kind": ("failing", look(0, layout="stream"), "attempts are not judged here"),
    "messages where there are none": ("claims-dead", bare(**NO_BOXES), "there are no messages here"),
    "read mail": ("claims-dead", look(0, layout="mail"), "messages of a mail folder are not judged"),
    "a cursor that is not there": ("cursor-reverted", look(0), "there is no cursor here"),
    "a server that is away": ("claims-dead", look(0, complete=False, watch=AWAY), "no answer for 5s"),
    "locks that are hidden": ("lock-stale", look(0, locks=(Lock("/x", "flock"),)), "it is unknown who has 1 lock"),
    "space that is hidden": ("disk-full", look(0), "free space is not visible"),
}  # fmt: skip


@pytest.mark.parametrize("name", BLIND)
def test_what_was_not_judged_is_unknown_and_says_what_would_tell(name: str) -> None:
    code, observation, why = BLIND[name]
    found = judged(code, observation)
    assert (found.state, why in found.text) == (UNKNOWN, True), found.text
    assert found.text.startswith(f"{code} was not judged: ")
    counted = judged(f"{code}=0", observation)
    assert (counted.state, counted.text.startswith(f"{code} is not known: ")) == (UNKNOWN, True), counted.text


NOT_ALL = look(0, claims=(DEAD, LOST), judged_all=False, complete=False)
SOME = look(0, claims=(DEAD, LOST))
IDLE = tuple(look(at, 3, consumers=0, flow=flow(at - 5, at)) for at in range(0, 80, 5))
HIDDEN = look(0, complete=False, states=(box(Box.TRASH, None, error="permission denied"),))
BROKEN = look(0, cursors=(_cursors("/a.json"), _cursors("/b.json", "it is cut off")))


@pytest.mark.parametrize(
    ("text", "looks", "state", "said"),
    [
        ("claims-dead", [NOT_ALL], CRITICAL, "≥1 claim of a dead"), ("claims-dead=0", [NOT_ALL], CRITICAL, "claims-dead is 1"),
        ("claims-dead=1", [NOT_ALL], UNKNOWN, "claims-dead is 1 or more: "),
        ("claims-dead=@0", [NOT_ALL], OK, ""),  # one is not none
        ("dead=1", [SOME], UNKNOWN, "dead is 1 to 2: it is unknown who holds 1"), ("dead=2", [SOME], OK, ""),
        ("dead=2", [look(0, claims=(DEAD, LOST), judged_all=False)], UNKNOWN, "dead is 1 or more"),  # some were not asked
        ("dead=2", [look(0, claims=(DEAD,), states=(box(Box.CUR, 1, complete=False),))], UNKNOWN,
         "dead is 1 or more: not all of cur was read"),
        ("depth=9:", [look(0, 5, complete=False)], UNKNOWN, "depth is 5 or more"),
        # a problem that counts nothing is one
        ("no-consumer", IDLE, CRITICAL, "no "), ("no-consumer=0", IDLE, CRITICAL, "no-consumer is 1"),
        ("disk-full=0", [look(0, disk=Disk("ext4", 0, 50 * GB, 10**6, 10**7))], CRITICAL, "disk-full is 1"),
        # a value of what is not here
        ("rejected=0", [bare(layout="layout", boxes={Box.NEW: box(Box.NEW, 0)})], UNKNOWN,
         "rejected is not known: there is no rejected here"),
        ("held=9", [look(0, 5, states=(box(Box.HELD, 3, error="permission denied"),))], UNKNOWN,
         "held is not known: permission denied"),  # its figures are old
        # a box that is hidden takes nothing from the others
        ("claims-dead", [HIDDEN], OK, ""), ("rejected=0", [HIDDEN], OK, ""), ("trash=0", [HIDDEN], UNKNOWN, "trash is not known"),
        ("problems=1", [HIDDEN], UNKNOWN, "problems is"),
        # a cursor file that cannot be read hides what became of its cursors
        ("cursor-reverted", [BROKEN], UNKNOWN, "cursor-reverted was not judged"),
        ("cursor-unreadable", [BROKEN], CRITICAL, "b.json cannot be read"),
        # without a condition
        ("", [look(0, claims=(ALIVE,), judged_all=False)], UNKNOWN, "not all holders were asked"),
        ("", [look(0, complete=False)], UNKNOWN, "the look is not complete"), ("", [look(0, claims=(ALIVE,))], OK, "no problems"),
    ],
)  # fmt: skip
def test_what_was_seen_alerts_and_what_was_not_is_never_ok(
    text: str, looks: Sequence[Observation], state: State, said: str
) -> None:
    found = finding(seen(*looks), [condition(text, CRITICAL)] if text else ())
    assert (found.state, found.text.startswith(said)) == (state, True), found.text


@pytest.mark.parametrize(
    ("code", "setting"), [("new-growing", {}), ("no-consumer", {}), ("lock-blocked", {}), ("new-growing", {"new_growing": 3.0})]
)
def test_so_much_watching_is_enough(code: str, setting: dict[str, float]) -> None:
    observer = Observer(Thresholds(**setting))  # type: ignore[arg-type]
    rest: dict[str, Any] = {"locks": (HELD,)}
    first = finding(observer.add(look(0, 3, **rest)), [condition(code, CRITICAL)])
    seconds = int(first.text.partition("needs --watch ")[2].partition("s")[0])
    for at in range(1, seconds):
        before = finding(observer.add(look(at, 3, last_claim_at=T0 + at, **rest)), [condition(code, CRITICAL)])
        assert before.state is UNKNOWN
    now = seconds + 0.001
    assert finding(observer.add(look(now, 3, last_claim_at=T0 + now, **rest)), [condition(code, CRITICAL)]).state is not UNKNOWN


def whole() -> Observation:
    """A look at which every value is known, and none is 0."""
    disk = CursorDisk()
    disk.put(0, {"imessage": 5})
    counts = {Box.TMP: 2, Box.CUR: 3, Box.HELD: 4, Box.REJECTED: 30, Box.TRASH: 6}
    states = tuple(box(one, many) for one, many in counts.items())
    return look(
        60, 7, oldest=725.0, states=states, claims=(DEAD, ALIVE, ALIVE), disk=FREE, cursors=(disk.read(),),
        flow=flow(0, 60, arrived=120, done=60),
    )  # fmt: skip


def values(snapshot: Snapshot) -> dict[str, float | None]:
    return {name: one.low for name, one in finding(snapshot).measures.items()}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("depth", 7), ("age", 725), ("claims", 3), ("dead", 1), ("tmp", 2), ("held", 4), ("rejected", 30), ("trash", 6),
        ("free", 5 * GB), ("problems", 2),
    ],
)  # fmt: skip
def test_each_value_can_be_a_threshold(name: str, value: float) -> None:
    snapshot = seen(whole())
    assert values(snapshot)[name] == value
    states = {f"{value}": OK, f"{value - 1}": CRITICAL, f"{value + 1}:": CRITICAL}
    for text, state in states.items():
        found = finding(snapshot, [condition(f"{name}={text}", CRITICAL)])
        assert found.state is state, found.text
    unit = VALUES[name].unit
    assert f"{name} is {value}{unit} (range {value + 1}:)" in finding(snapshot, [condition(f"{name}={value + 1}:", WARNING)]).text


def test_rates_and_reverts_are_thresholds_where_they_were_measured() -> None:
    disk = CursorDisk()
    looks = []
    for at, value, other in ((0, 5, 1), (10, 6, 2), (20, 7, 3), (30, 6, 4)):  # the last one writes back what it had read
        disk.put(at, {"imessage": value, "email": other})
        looks.append(look(at, flow=flow(at - 10, at, arrived=20, done=10), cursors=(disk.read(),)))
    snapshot = seen(*looks)
    assert {name: values(snapshot)[name] for name in ("in", "done", "reverts")} == {"in": 2.0, "done": 1.0, "reverts": 1}
    for text, state in (("in=1", CRITICAL), ("in=2", OK), ("done=2:", CRITICAL), ("reverts=0", CRITICAL), ("reverts=1", OK)):
        assert finding(snapshot, [condition(text, CRITICAL)]).state is state
    once = seen(look(0, cursors=(disk.read(),)))
    for text, why in (("in=9", "in is not known: needs --watch"), ("reverts=9", "reverts is not known: needs --watch over 2")):
        found = finding(once, [condition(text, CRITICAL)])
        assert (found.state, found.text.startswith(why)) == (UNKNOWN, True), found.text
    assert {"in", "done", "reverts"}.isdisjoint(values(once))


def test_no_value_of_a_server_that_is_away_is_known() -> None:
    away = look(0, 5, complete=False, watch=AWAY)
    assert {judged(f"{name}=99999999999", away).state for name in VALUES} == {UNKNOWN}


def test_one_table_names_the_values_everywhere() -> None:
    names = list(VALUES)
    shown = list(finding(seen(whole())).measures)
    assert shown == [name for name in names if name in shown]
    choice = f"values: {', '.join(names)}; did you mean rejected"
    for text, said in (("reject=0", choice), ("rejected", "rejected needs a range")):
        with pytest.raises(UsageError, match=said):
            condition(text, WARNING)
    with pytest.raises(UsageError, match="did you mean trash"):
        kept_values("depth,trsh")


def test_muted_cursors_are_told_though_they_do_not_count() -> None:
    muted = Problem("muted", Severity.NOTE, "muted: imessage until 03:41", 1)
    snapshot = replace(seen(look(0)), problems=(muted,), muted={"imessage": T0 + 3600})
    for conditions in ((), [condition("depth=5", WARNING)]):
        found = finding(snapshot, conditions)
        assert "muted: imessage until 03:41" in found.text and found.state is OK


@pytest.mark.parametrize(
    ("text", "quiet", "alerts"),
    [
        ("10", [0, 5, 10], [-0.1, 10.1, math.inf]), ("10:", [10, 1e9], [9.9, 0, -1]), ("~:10", [-1e9, 0, 10], [10.1]),
        ("10:20", [10, 15, 20], [9.9, 20.1]), ("@10:20", [9.9, 20.1], [10, 15, 20]), ("@5", [-1, 5.1], [0, 5]),
        (":7", [0, 7], [-1, 8]), ("@600:", [599], [600, 1e9]), ("0", [0], [1, -1]), ("-10:-5", [-10, -5], [-4, 0, -11]),
        ("1.5:2.5", [1.5, 2, 2.5], [1.4, 2.6]), (".5", [0, 0.5], [0.6]), ("@~:", [], [-1e9, 0, 1e9]), ("~:", [-1e9, 0, 1e9], []),
    ],
)  # fmt: skip
def test_what_a_range_alerts_on(text: str, quiet: list[float], alerts: list[float]) -> None:
    range = Range.of(text)
    assert [range.judges(value, value) for value in (*quiet, *alerts)] == [False] * len(quiet) + [True] * len(alerts)


@pytest.mark.parametrize(
    "text", ["", "@", "~", "@~", "x", "10;20", "20:10", "1:2:3", "1e3", "10m", "inf", "nan", "10 ", "--1", "1,5"]
)
def test_what_is_no_range_says_how_one_looks(text: str) -> None:
    with pytest.raises(UsageError, match="as in 10, 10:, ~:10, 10:20, @10:20"):
        Range.of(text)


EDGES = st.sampled_from(["5", "5:", "~:5", "2:7", "@5", "@5:", "@~:5", "@2:7"])


@given(EDGES, st.integers(-3, 12), st.integers(0, 12))
def test_what_lies_between_two_values_alerts_where_all_of_it_does(text: str, low: int, wide: int) -> None:
    range = Range.of(text)

    def alerts(high: int) -> set[bool | None]:
        steps = (low + step / 2 for step in builtins.range(2 * (high - low) + 1))
        return {range.judges(step, step) for step in steps}

    found = range.judges(low, low + wide)
    assert alerts(low + wide) == ({True, False} if found is None else {found})
    endless = range.judges(low, math.inf)
    assert alerts(20) == ({True, False} if endless is None else {endless})


@pytest.mark.parametrize("code", CODES)
def test_every_code_can_be_a_condition_of_every_kind_of_look(code: str) -> None:
    kinds = [whole(), bare(**NO_BOXES), look(0, layout="mail"), look(0, layout="stream"), look(0, complete=False, watch=AWAY)]
    for observation in kinds:
        for text in (code, f"{code}=0"):
            found = judged(text, observation)
            assert found.state in (OK, CRITICAL, UNKNOWN) and found.text
