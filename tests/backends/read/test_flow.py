"""Arrivals and departures, tied to ids: nothing is counted twice, and a message that goes back has not arrived."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spooltop.backends.directory.events.flow import FlowCounter, difference
from spooltop.backends.directory.events.report import EventBatch
from spooltop.model.look.flow import Completion, Flow
from spooltop.model.vocabulary import Box

TOKEN = "ab" * 16
ID = "1795220920443125.P9R0123456789abcdef.vm"
NEW = f"{ID},s=email"
CLAIM = f"{NEW},c={TOKEN}.1795220925443125:2,P7"
LATER = f"{NEW},n=1,c={TOKEN}.1795220926443125:2,P7"
AGAIN = f"{NEW},n=1"
CANARY = f"{NEW},x=1"
CANARY_CLAIM = f"{CANARY},c={TOKEN}.5:2,P7"
PLAIN = f"{NEW}:2,P4242"


def batch(new: str = "", cur: str = "", from_new: str = "", from_cur: str = "") -> EventBatch:
    def sets(in_new: str, in_cur: str) -> dict[Box, set[str]]:
        return {Box.NEW: {in_new} if in_new else set(), Box.CUR: {in_cur} if in_cur else set()}

    return EventBatch(10.0, sets(new, cur), sets(from_new, from_cur))


def looks(*batches: EventBatch, in_new: bool = False, aside: frozenset[str] = frozenset()) -> list[Flow]:
    """What is taken at a look after each batch, and at two more: nothing is done before it stayed away for a look."""
    counter = FlowCounter(lambda _: in_new)
    counter.begin(0.0)
    flows = []
    for one in [*batches, None, None]:
        if one is not None:
            counter.add(one, aside=aside)
        flows.append(counter.take(11.0, exact=True, measured=True, aside=aside))
    return flows


def totals(flows: list[Flow]) -> tuple[int, int, int, int]:
    """arrived, claimed, retried, done"""
    return tuple(sum(getattr(flow, name) for flow in flows) for name in ("arrived", "claimed", "retried", "done"))  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("batches", "expected"),
    [
        ([batch(new=NEW)], (1, 0, 0, 0)),
        ([batch(new=NEW), batch(from_new=NEW, cur=CLAIM), batch(from_cur=CLAIM)], (1, 1, 0, 1)),
        ([batch(new=NEW, from_new=NEW, cur=CLAIM, from_cur=CLAIM)], (1, 1, 0, 1)),
        ([batch(new=NEW, from_new=NEW, cur=CLAIM)], (1, 1, 0, 0)),
        # Given back and claimed again by one that has no names of its own for that: it goes once.
        ([batch(new=NEW, from_new=NEW, cur=PLAIN, from_cur=PLAIN), batch(from_cur=PLAIN)], (1, 1, 0, 1)),
        ([batch(from_new=NEW, cur=CLAIM, from_cur=CLAIM)], (0, 1, 0, 1)),
        ([batch(from_cur=CLAIM, new=AGAIN)], (0, 0, 1, 0)),
        ([batch(from_cur=CLAIM), batch(new=AGAIN)], (0, 0, 1, 0)),
        ([batch(from_cur=CLAIM, new=AGAIN, from_new=AGAIN, cur=LATER)], (0, 1, 1, 0)),
        ([batch(from_new=NEW)], (0, 0, 0, 0)),
        ([batch(new=CANARY), batch(from_new=CANARY, cur=CANARY_CLAIM)], (0, 0, 0, 0)),
        ([batch(CANARY, CANARY_CLAIM, CANARY, CANARY_CLAIM)], (0, 0, 0, 0)),
        ([batch(new="plain"), batch(from_new="plain", cur="plain:2,P4"), batch(from_cur="plain:2,P4")], (1, 1, 0, 1)),
    ],
)
def test_counts(batches: list[EventBatch], expected: tuple[int, int, int, int]) -> None:
    assert totals(looks(*batches)) == expected


def test_what_is_back_or_set_aside_is_not_done_and_its_return_no_arrival() -> None:
    through = batch(new="plain", from_new="plain", cur="plain:2,P4", from_cur="plain:2,P4")
    assert totals(looks(through, in_new=True)) == (0, 1, 1, 0)
    for one in (batch(from_cur=CLAIM), batch(new=NEW)):
        assert totals(looks(one, aside=frozenset([ID]))) == (0, 0, 0, 0)


def test_a_passage_has_its_times_and_source() -> None:
    first, *_, last = looks(batch(new=NEW), batch(from_new=NEW, cur=CLAIM), batch(from_cur=CLAIM))[:-1]
    assert first.arrived_by_source == {"email": 1} and (first.since, first.until) == (0.0, 11.0)
    (passage,) = last.completions
    assert (passage.put_at, passage.claimed_at, passage.gone_at) == (1_795_220_920.443125, 1_795_220_925.443125, 10.0)


@pytest.mark.parametrize("claimed", [CLAIM, LATER])
def test_what_is_read_late_is_counted_and_no_sample_of_times(claimed: str) -> None:
    flows = looks(replace(batch(NEW, claimed, NEW, claimed), late=True))
    assert totals(flows)[::3] == (1, 1)
    assert [one for flow in flows for one in flow.completions] == [Completion(None, None, 10.0)]


def test_difference_of_two_scans() -> None:
    changes = difference(1.0, ({"a", "b"}, set()), ({"b"}, {"a:2,P1"}))
    assert changes.added == {Box.NEW: set(), Box.CUR: {"a:2,P1"}}
    assert changes.deleted == {Box.NEW: {"a"}, Box.CUR: set()}


@pytest.mark.parametrize(
    ("batches", "aside", "holder", "expected"),
    [
        ([batch(NEW), batch(cur=CLAIM, from_new=NEW), batch(from_cur=CLAIM)], set(), TOKEN, (1, 0)),
        ([batch(NEW, CLAIM, NEW, CLAIM)], set(), TOKEN, (1, 0)),  # all within one look
        ([batch(cur=CLAIM), batch(f"{AGAIN},t=1795220999000000", from_cur=CLAIM)], set(), TOKEN, (0, 1)),
        ([batch(cur=CLAIM), batch(from_cur=CLAIM), batch(f"{AGAIN},e=exit-1")], set(), TOKEN, (0, 1)),  # the halves apart
        ([batch(cur=CLAIM), batch(AGAIN, from_cur=CLAIM)], set(), TOKEN, (0, 0)),  # given back, to be taken at once
        ([batch(cur=CLAIM), batch(f"{AGAIN},e=died", from_cur=CLAIM)], set(), TOKEN, (0, 0)),
        ([batch(cur=CLAIM), batch(from_cur=CLAIM)], {ID}, TOKEN, (0, 1)),  # rejected
        ([batch(cur=PLAIN), batch(from_cur=PLAIN)], set(), "P4242", (1, 0)),
        ([batch(NEW, PLAIN, NEW, PLAIN)], set(), "P4242", (1, 0)),
    ],
)
def test_each_consumer_is_counted_by_itself(
    batches: list[EventBatch], aside: set[str], holder: str, expected: tuple[int, int]
) -> None:
    flows = looks(*batches, aside=frozenset(aside))
    assert {one for flow in flows for one in flow.by_holder} <= {holder}
    counted = [flow.by_holder[holder] for flow in flows if holder in flow.by_holder]
    assert (sum(one.done for one in counted), sum(one.failed for one in counted)) == expected
