"""Rates of single consumers: over what was watched, and of nobody that was not."""

from __future__ import annotations

import pytest

from spooltop.model.look.consumers import ConsumerList, ConsumerRow
from spooltop.model.look.flow import Flow, HolderFlow
from spooltop.model.vocabulary import Owner, Verdict
from spooltop.observe.flow.holders import HolderRates

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
def test_a_rate_is_over_what_was_watched(
    flows: list[tuple[float, float, dict[str, HolderFlow]] | None], token: str | None, start: float | None,
    rates: tuple[float | None, float | None, float | None],
) -> None:  # fmt: skip
    watch = HolderRates()
    for flow in flows:
        watch.add(Flow(100, 110) if flow is None else Flow(*flow[:2], measured=True, by_holder=flow[2]))
    row = ConsumerRow(Verdict.ALIVE, "running", Owner(pid=77, start=start), token, last_claim_at=3.0)
    [consumer] = watch.measured(ConsumerList((row,))).consumers
    assert (consumer.rate.done, consumer.rate.failed, consumer.last_claim_at) == rates
