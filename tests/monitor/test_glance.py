"""The order of several targets, and the words on each."""

from __future__ import annotations

from dataclasses import replace

from spooltop.model.look.observation import BoxState
from spooltop.model.look.pause import Pause
from spooltop.model.look.problem import Problem, Severity
from spooltop.model.look.snapshot import Snapshot
from spooltop.model.vocabulary import ASIDE, Box
from spooltop.monitor.glance import Glance, Level, worst_first
from spooltop.observe.observer import Observer
from tests.observe.observations import T0, look

DEAD = Problem("claims-dead", Severity.CRITICAL, "2 claims of dead consumers", 2)
OLD = Problem("tmp-old", Severity.WARNING, "1 old file in tmp", 1)
UNKNOWN = Problem("claims-unknown", Severity.NOTE, "1 claim of an unknown holder", 1)
POISON = Problem("poison", Severity.CRITICAL, "1 message kills its consumers", 1)


def snapshot(*problems: Problem, new: int | None = 3) -> Snapshot:
    states = [BoxState(Box.NEW, new, oldest_at=T0 - 50.0)]
    return replace(Observer().add(look(0, new, states=states)), problems=problems)


def test_the_worst_is_first_then_more_problems_then_the_name() -> None:
    glances = [
        Glance("/pending"), Glance("/fine-b", snapshot=snapshot()), Glance("/note", snapshot=snapshot(UNKNOWN)),
        Glance("/old", snapshot=snapshot(OLD)), Glance("/dead", snapshot=snapshot(OLD, DEAD)),
        Glance("/poison", snapshot=snapshot(POISON)), Glance("/closed", error="permission denied"),
        Glance("/hung", snapshot=snapshot(), silent_for=41.0), Glance("/fine-a", snapshot=snapshot()),
    ]  # fmt: skip
    names = "/hung /dead /poison /closed /old /note /fine-a /fine-b /pending"
    assert [one.target for one in worst_first(glances)] == names.split()
    assert [one.troubled for one in worst_first(glances)] == [True] * 5 + [False] * 4


def test_equally_bad_ones_are_by_their_problems_then_their_oldest_message_then_the_number_in_their_name() -> None:
    def one(name: str, *problems: Problem, age: float) -> Glance:
        states = [BoxState(Box.NEW, 3, oldest_at=T0 - age)]
        return Glance(name, snapshot=replace(Observer().add(look(0, 3, states=states)), problems=problems))

    bad = [one(name, DEAD, age=age) for name, age in (("/spool10", 9), ("/spool2", 9), ("/z-old", 99))]
    bad.append(one("/z-many", OLD, DEAD, age=1))
    assert [each.target for each in worst_first(bad)] == ["/z-many", "/z-old", "/spool2", "/spool10"]
    calm = [one("/b10", age=99), one("/b9", age=1)]
    assert [each.target for each in worst_first(calm)] == ["/b9", "/b10"]


def test_one_says_its_worst_problem_or_for_how_long_it_does_not_answer() -> None:
    one = Glance("/q", snapshot=snapshot(UNKNOWN, OLD, DEAD))
    assert (one.worst, one.level, one.says) == (DEAD, Level.CRITICAL, DEAD.text)
    silent = replace(one, silent_for=41.0, step="readdir of new")
    assert (silent.says, silent.level) == ("does not answer (41s): readdir of new", Level.SILENT)
    missing = BoxState(Box.CUR, None, complete=False, error="is missing")
    assert Glance("/q", snapshot=Observer().add(look(0, 3, states=[missing]))).dead is None


def test_counts_are_those_of_the_look_and_before_it_of_the_names() -> None:
    counted = Glance("/q", counted={Box.NEW: 7, Box.CUR: 1, Box.TMP: None})
    assert (counted.count(Box.NEW), counted.count(Box.TMP), counted.dead, counted.oldest_at) == (7, None, None, None)
    seen = replace(counted, snapshot=snapshot())
    assert (seen.count(Box.NEW), seen.count(*ASIDE), seen.dead, seen.oldest_at) == (3, 0, 0, T0 - 50.0)
    assert Glance("/q").count(Box.NEW) is None
    assert Glance("/q", snapshot=snapshot(new=0)).oldest_at is None


def test_a_paused_one_says_so_before_it_is_a_problem() -> None:
    calm = snapshot()
    paused = replace(calm, observation=replace(calm.observation, paused=Pause("ann", T0 - 300.0, "a test")))
    one = Glance("/q", snapshot=paused)
    assert (one.level, one.says, one.only_paused, one.troubled) == (Level.NOTE, "paused by ann for 5m: a test", True, False)
    assert not replace(one, snapshot=replace(paused, problems=(DEAD,))).only_paused
    order = [Glance("/fine", snapshot=calm), one, Glance("/note", snapshot=snapshot(UNKNOWN))]
    assert [each.target for each in worst_first(order)] == ["/note", "/q", "/fine"]
