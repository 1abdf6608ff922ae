"""What happened from one look to the next, as the Overview shows it."""

from __future__ import annotations

from dataclasses import replace

from spooltop.model.look.problem import Severity
from spooltop.model.look.snapshot import Snapshot
from spooltop.model.operations.plan import ItemResult, Outcome, Result
from spooltop.model.vocabulary import Action
from spooltop.tui.tracking.event_log import EventLog

from ..snapshots import values
from ..snapshots.values import NOW


def at(seconds: float, whole: Snapshot) -> Snapshot:
    return replace(whole, observation=replace(whole.observation, taken_at=NOW + seconds))


def words(log: EventLog, until: float = 1000.0) -> list[str]:
    return [event.words for event in log.newest(NOW + until)]


def test_what_the_first_look_shows_did_not_happen_then() -> None:
    log = EventLog()
    log.take(at(0, values.trouble()))
    log.take(at(1, values.trouble()))
    assert words(log) == []


def test_problems_begin_and_end_with_the_time_they_were_last_seen() -> None:
    log, whole = EventLog(), values.trouble()
    log.take(at(0, replace(whole, problems=())))
    log.take(at(1, whole))
    assert {event.severity for event in log.newest(NOW + 1)} == {Severity.CRITICAL, Severity.WARNING, Severity.NOTE}
    log.take(at(5, whole))
    log.take(at(20, replace(whole, problems=whole.problems[1:])))
    newest = log.newest(NOW + 20)[0]
    assert (newest.at, newest.words, newest.ended) == (NOW + 5, f"over: {whole.problems[0].text}", True)
    assert log.newest(NOW + 0.5) == [], "a frozen display shows nothing from later"


def test_a_consumer_that_exits_is_told_once_with_what_it_held() -> None:
    log, whole = EventLog(), values.trouble()
    log.take(at(0, replace(whole, problems=(), observation=replace(whole.observation, claims=()))))
    both = replace(whole, problems=())
    log.take(at(1, both))
    log.take(at(2, both))
    assert sorted(words(log)) == ["consumer 4312 worker.py exited, holding 1", "consumer 4313 worker.py exited, holding 1"]


def test_an_operation_of_this_session_is_told_once_at_its_time() -> None:
    log, whole = EventLog(), values.trouble()
    log.take(at(0, whole))
    items = [ItemResult("a", "a", Outcome.DONE), ItemResult("b", "b", Outcome.SKIPPED, "gone")]
    result = Result("c41d0a7e92", Action.REQUEUE, values.TARGET, NOW + 3, items)
    log.take(at(4, whole), [result])
    log.take(at(5, whole), [result])
    [event] = log.newest(NOW + 5)
    assert (event.at, event.words) == (NOW + 3, "requeue by memex: done 1, skipped 1, failed 0 · c41d0a7e92")


def test_it_keeps_only_the_newest() -> None:
    log, whole = EventLog(), values.trouble()
    for look in range(600):
        log.take(at(20 * look, replace(whole, problems=whole.problems[: look % 2])))
    assert len(log.newest(NOW + 20 * 600)) == 200
