"""Rates of single consumers: over what was watched, and of nobody that was not."""

from __future__ import annotations

import doctest
from dataclasses import replace

from spooltop.model.look import consumers
from spooltop.model.look.consumers import ConsumerList, ConsumerRow
from spooltop.model.look.flow import Flow, HolderFlow
from spooltop.model.vocabulary import Owner, Verdict
from spooltop.observe.flow.holders import HolderRates

A = "a" * 32


def row(token: str | None = A, pid: int = 77) -> ConsumerRow:
    return ConsumerRow(Verdict.ALIVE, "running", Owner(pid=pid), token, last_claim_at=3.0)


def flow(since: float, until: float, *, exact: bool = True, **holders: HolderFlow) -> Flow:
    named = {A if name == "a" else name: one for name, one in holders.items()}
    return Flow(since, until, exact=exact, measured=True, by_holder=named)


def rates(watch: HolderRates, one: ConsumerRow) -> tuple[float | None, float | None, float | None]:
    [found] = watch.measured(ConsumerList((one,))).consumers
    return found.rate.done, found.rate.failed, found.last_claim_at


def test_examples_in_the_docs_hold() -> None:
    outcome = doctest.testmod(consumers)
    assert outcome.attempted and not outcome.failed


def test_nothing_watched_is_not_zero() -> None:
    watch = HolderRates()
    assert rates(watch, row()) == (None, None, 3.0)
    watch.add(flow(0, 1, a=HolderFlow(5, 5, 9.0)))  # these left before anybody watched
    assert rates(watch, row()) == (None, None, 9.0)


def test_each_flow_counts_what_left_during_the_one_before() -> None:
    watch = HolderRates()
    watch.add(flow(0, 10))
    watch.add(flow(10, 11, a=HolderFlow(20, 5)))
    assert rates(watch, row()) == (2.0, 0.5, 3.0)
    assert rates(watch, row(None)) == (0.0, None, 3.0)
    watch.add(flow(11, 20, P77=HolderFlow(11)))
    assert rates(watch, row(None)) == (1.0, None, 3.0)


def test_a_consumer_that_started_since_is_measured_from_its_start_on() -> None:
    watch = HolderRates()
    watch.add(flow(0, 40))
    watch.add(flow(40, 41, a=HolderFlow(20)))
    started = replace(row(), owner=Owner(pid=77, start=30.0))
    assert rates(watch, started)[0] == 2.0
    assert rates(watch, replace(row(), owner=Owner(pid=77, start=39.9)))[0] == 20.0
    assert rates(watch, replace(row(), owner=Owner(pid=77, start=500.0)))[0] == 0.5  # by another clock


def test_only_the_last_minute_counts() -> None:
    watch = HolderRates()
    for at in range(100):
        watch.add(flow(at, at + 1, exact=at != 70, a=HolderFlow(2)))
    found = watch.measured(ConsumerList((row(),)))
    assert 60 <= found.window <= 62
    assert found.lower_bound
    assert found.consumers[0].rate.done == 2.0


def test_a_gap_in_watching_forgets() -> None:
    watch = HolderRates()
    watch.add(flow(0, 10))
    watch.add(flow(10, 20, a=HolderFlow(20)))
    watch.add(Flow(20, 30))
    assert rates(watch, row()) == (None, None, 3.0)
