"""Arrivals and departures, tied to ids: nothing is counted twice, and a message that goes back has not arrived."""

from __future__ import annotations

import struct
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from spooltop.backends.directory.events.flow import FlowCounter, difference
from spooltop.backends.directory.events.flow_meter import FlowMeter
from spooltop.backends.directory.events.inotify import Events, parsed
from spooltop.backends.directory.events.watcher import EventBatch, EventReport
from spooltop.backends.directory.scan.scan import BoxScan
from spooltop.backends.directory.scan.set_aside import SetAsideBoxes
from spooltop.model.look.flow import Completion
from spooltop.model.vocabulary import Box

TOKEN = "ab" * 16
ID = "1795220920443125.P9R0123456789abcdef.vm"
NEW = f"{ID},s=email"
CLAIM = f"{NEW},c={TOKEN}.1795220925443125:2,P7"
LATER = f"{NEW},n=1,c={TOKEN}.1795220926443125:2,P7"
AGAIN = f"{NEW},n=1"


def batch(new: str = "", cur: str = "", from_new: str = "", from_cur: str = "") -> EventBatch:
    def sets(in_new: str, in_cur: str) -> dict[Box, set[str]]:
        return {Box.NEW: {in_new} if in_new else set(), Box.CUR: {in_cur} if in_cur else set()}

    return EventBatch(10.0, sets(new, cur), sets(from_new, from_cur))


def count(*batches: EventBatch, in_new: bool = False, aside: frozenset[str] = frozenset()) -> tuple[int, int, int, int]:
    """arrived, claimed, retried, done"""
    counter = FlowCounter(lambda _: in_new)
    counter.begin(0.0)
    totals = [0, 0, 0, 0]
    for one in [*batches, None, None]:
        if one is not None:
            counter.add(one, aside=aside)
        flow = counter.take(11.0, exact=True, measured=True, aside=aside)
        totals = [a + b for a, b in zip(totals, (flow.arrived, flow.claimed, flow.retried, flow.done), strict=True)]
    return tuple(totals)  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("batches", "expected"),
    [
        ([batch(new=NEW)], (1, 0, 0, 0)),
        ([batch(new=NEW), batch(from_new=NEW, cur=CLAIM), batch(from_cur=CLAIM)], (1, 1, 0, 1)),
        ([batch(new=NEW, from_new=NEW, cur=CLAIM, from_cur=CLAIM)], (1, 1, 0, 1)),
        ([batch(new=NEW, from_new=NEW, cur=CLAIM)], (1, 1, 0, 0)),
        # Given back and claimed again by one that has no names of its own for that: it goes once.
        ([batch(new=NEW, from_new=NEW, cur=f"{NEW}:2,P5", from_cur=f"{NEW}:2,P5"), batch(from_cur=f"{NEW}:2,P5")], (1, 1, 0, 1)),
        ([batch(from_new=NEW, cur=CLAIM, from_cur=CLAIM)], (0, 1, 0, 1)),
        ([batch(from_cur=CLAIM, new=AGAIN)], (0, 0, 1, 0)),
        ([batch(from_cur=CLAIM), batch(new=AGAIN)], (0, 0, 1, 0)),
        ([batch(from_cur=CLAIM, new=AGAIN, from_new=AGAIN, cur=LATER)], (0, 1, 1, 0)),
        ([batch(from_new=NEW)], (0, 0, 0, 0)),
        ([batch(new=NEW + ",x=1"), batch(from_new=NEW + ",x=1", cur=f"{NEW},x=1,c={TOKEN}.5:2,P7")], (0, 0, 0, 0)),
        ([batch(NEW + ",x=1", f"{NEW},x=1,c={TOKEN}.5:2,P7", NEW + ",x=1", f"{NEW},x=1,c={TOKEN}.5:2,P7")], (0, 0, 0, 0)),
        ([batch(new="plain"), batch(from_new="plain", cur="plain:2,P4"), batch(from_cur="plain:2,P4")], (1, 1, 0, 1)),
    ],
)
def test_counts(batches: list[EventBatch], expected: tuple[int, int, int, int]) -> None:
    assert count(*batches) == expected


def test_taken_and_given_back_within_one_batch() -> None:
    assert count(batch(new="plain", from_new="plain", cur="plain:2,P4", from_cur="plain:2,P4"), in_new=True) == (0, 1, 1, 0)


def test_what_was_set_aside_is_not_done_and_its_return_no_arrival() -> None:
    assert count(batch(from_cur=CLAIM), aside=frozenset([ID])) == (0, 0, 0, 0)
    assert count(batch(new=NEW), aside=frozenset([ID])) == (0, 0, 0, 0)


def test_a_passage_has_its_times_and_source() -> None:
    counter = FlowCounter(lambda _: False)
    counter.begin(0.0)
    counter.add(batch(new=NEW))
    first = counter.take(10.5, exact=True, measured=True)
    assert first.arrived_by_source == {"email": 1} and (first.since, first.until) == (0.0, 10.5)
    counter.add(batch(from_new=NEW, cur=CLAIM))
    counter.add(batch(from_cur=CLAIM))
    assert counter.take(11.0, exact=True, measured=True).done == 0
    assert counter.unsettled
    (passage,) = counter.take(12.0, exact=True, measured=True).completions
    assert (passage.put_at, passage.claimed_at, passage.gone_at) == (1_795_220_920.443125, 1_795_220_925.443125, 10.0)
    assert counter.last_claim_at == 1_795_220_925.443125


@pytest.mark.parametrize("more", [CLAIM, LATER])
def test_what_is_read_late_is_counted_and_no_sample_of_times(more: str) -> None:
    counter = FlowCounter(lambda _: False)
    counter.begin(0.0)
    counter.add(replace(batch(NEW, more, NEW, more), late=True))
    arrived = counter.take(11.0, exact=True, measured=True).arrived
    flow = counter.take(12.0, exact=True, measured=True)
    assert (arrived, flow.done, flow.completions) == (1, 1, (Completion(None, None, 10.0),))


def test_the_flow_is_of_the_time_that_was_listened_to() -> None:
    meter = FlowMeter(SetAsideBoxes(), lambda _: False)
    scans = BoxScan(), BoxScan()

    def looked(now: float, report: EventReport, starting: bool = False) -> tuple[float, float, int]:
        flow = meter.look(now, report, *scans, [], starting=starting, exact=True)
        return flow.since, flow.until, flow.arrived

    looked(100.0, EventReport(), starting=True)
    assert looked(101.0, EventReport((), True, True, until=100.5)) == (100.0, 100.5, 0)
    # The process was stopped for a minute; the look comes before anybody has read what happened meanwhile.
    assert looked(160.0, EventReport((), True, True, until=101.0)) == (100.5, 101.0, 0)
    assert looked(161.0, EventReport((batch(new=NEW),), True, True, until=160.5)) == (101.0, 160.5, 1)


def test_difference_of_two_scans() -> None:
    changes = difference(1.0, ({"a", "b"}, set()), ({"b"}, {"a:2,P1"}))
    assert changes.added == {Box.NEW: set(), Box.CUR: {"a:2,P1"}}
    assert changes.deleted == {Box.NEW: {"a"}, Box.CUR: set()}


def test_the_first_look_measures_nothing() -> None:
    counter = FlowCounter(lambda _: False)
    assert not counter.take(1.0, exact=True, measured=True).measured
    assert counter.take(2.0, exact=True, measured=True).measured


OWN_IDS = [f"{1795220920443125 + number}.P9R{number:016x}.vm" for number in range(6)]
STEPS = st.lists(
    st.tuples(st.sampled_from(range(6)), st.sampled_from(["put", "take", "end", "give back"]), st.booleans()), max_size=40
)


CUTS = st.sampled_from(["", "batch", "look"])
LIVES = st.lists(st.tuples(st.sampled_from(range(4)), st.sampled_from(["put", "take", "end", "give back"]), CUTS), max_size=40)


@settings(max_examples=300)
@example([(0, "put", "batch"), (0, "take", ""), (0, "give back", "")], True)  # given back to where it was put
@example([(0, "put", "batch"), (0, "take", "batch"), (0, "end", "")], True)  # when it was taken only the batch tells
@given(LIVES, st.booleans())
def test_a_message_that_lives_in_two_batches_of_a_look_counts_as_in_one_by_one(
    steps: list[tuple[int, str, str]], foreign: bool
) -> None:
    """The same lives once of messages with our ids, once of the same messages with chosen ones, which are counted singly."""

    def live(ids: list[str]) -> list[tuple[object, ...]]:
        names: dict[int, str] = {}
        claims: dict[int, str] = {}
        tries: Counter[int] = Counter()
        counter = FlowCounter(lambda name: name in names.values())
        counter.begin(0.0)
        events: list[bytes] = []
        batches: list[EventBatch] = []
        seen: list[tuple[object, ...]] = []
        for time, (number, step, cut) in enumerate([*steps, (0, "", "look"), (0, "", "look")]):
            if step == "put" and number not in names and number not in claims and not tries[number]:
                names[number] = f"{ids[number]},s=email"
                events.append(event(1, MOVED_TO, names[number].encode()))
            elif step == "take" and number in names:
                tail = ":2,P7" if foreign else f",c={TOKEN}.{1795220925443125 + time}:2,P7"
                events.append(event(1, MOVED_FROM, names[number].encode()))
                claims[number] = names.pop(number) + tail
                tries[number] += 1
                events.append(event(2, MOVED_TO, claims[number].encode()))
            elif step in ("end", "give back") and number in claims:
                events.append(event(2, MOVED_FROM, claims.pop(number).encode()))
                if step == "give back":
                    names[number] = f"{ids[number]},s=email" + ("" if foreign else f",n={tries[number]}")
                    events.append(event(1, MOVED_TO, names[number].encode()))
            if cut:
                batches.append(in_batch(events, float(time)))
                events = []
            if cut == "look":
                counter.add(*batches)
                batches = []
                flow = counter.take(float(time), exact=True, measured=True)
                ways = sorted((one.claimed_at or 0.0, one.gone_at) for one in flow.completions)
                seen.append((flow.arrived, flow.claimed, flow.retried, flow.done, dict(flow.arrived_by_source), ways))
        return [*seen, (counter.last_claim_at, counter.unsettled)]

    assert live(OWN_IDS) == live([f"order-{number}" for number in range(6)])


def in_batch(events: list[bytes], at: float) -> EventBatch:
    """As the watcher tells it."""
    boxes = {"new": Box.NEW, "cur": Box.CUR}
    found = Events()
    parsed(b"".join(events), {1: "new", 2: "cur"}, found)
    assert found.back is not None
    return EventBatch(
        at, {boxes[path]: names for path, names in found.added.items()},
        {boxes[path]: names for path, names in found.deleted.items()}, found.back["new"], False, found.back["cur"],
        {boxes[path]: often for path, often in found.repeats.items() if often},
        {boxes[path]: often for path, often in found.gone_again.items() if often},
    )  # fmt: skip


def event(wd: int, mask: int, name: bytes) -> bytes:
    padded = name + b"\0" * (16 - len(name) % 16)
    return struct.pack("iIII", wd, mask, 0, len(padded)) + padded


MOVED_FROM, MOVED_TO = 0x40, 0x80


@given(STEPS, st.booleans())
def test_the_quick_way_through_a_batch_counts_as_the_long_one(steps: list[tuple[int, str, bool]], foreign_tail: bool) -> None:
    """The same lives once of messages with our ids, once of the same messages with chosen ones, which have no quick way."""

    def live(ids: list[str]) -> list[tuple[object, ...]]:
        names: dict[int, str] = {}
        claims: dict[int, str] = {}
        tries: Counter[int] = Counter()
        counter = FlowCounter(lambda name: name in names.values())
        counter.begin(0.0)
        new, cur, from_new, from_cur = set[str](), set[str](), set[str](), set[str]()
        seen: list[tuple[object, ...]] = []
        for time, (number, step, cut) in enumerate(steps):
            if step == "put" and number not in names and number not in claims and not tries[number]:
                names[number] = f"{ids[number]},s=email"
                new.add(names[number])
            elif step == "take" and number in names:
                tail = ":2,P7" if foreign_tail else f",c={TOKEN}.{1795220925443125 + time}:2,P7"
                claims[number] = names[number] + tail
                tries[number] += 1
                cur.add(claims[number])
                from_new.add(names.pop(number))
            elif step in ("end", "give back") and number in claims:
                from_cur.add(claims.pop(number))
                if step == "give back":
                    suffix = "" if foreign_tail else f",n={tries[number]}"
                    names[number] = f"{ids[number]},s=email{suffix}"
                    new.add(names[number])
            if cut:
                counter.add(EventBatch(float(time), {Box.NEW: new, Box.CUR: cur}, {Box.NEW: from_new, Box.CUR: from_cur}))
                new, cur, from_new, from_cur = set(), set(), set(), set()
                flow = counter.take(float(time), exact=True, measured=True)
                ways = Counter((one.claimed_at, one.gone_at) for one in flow.completions)
                seen.append((flow.arrived, flow.claimed, flow.retried, flow.done, dict(flow.arrived_by_source), ways))
        return [*seen, (counter.last_claim_at, counter.unsettled)]

    assert live(OWN_IDS) == live([f"order-{number}" for number in range(6)])


@pytest.mark.parametrize(("back", "expected"), [({"plain"}, (0, 1, 1, 0)), (set(), (1, 1, 0, 1))])
def test_a_batch_that_knows_what_came_last_is_believed(back: set[str], expected: tuple[int, int, int, int]) -> None:
    through = batch(new="plain", from_new="plain", cur="plain:2,P4", from_cur="plain:2,P4")
    assert count(replace(through, back=back), in_new=not back) == expected


@pytest.mark.parametrize("base", ["plain", f"{OWN_IDS[0]},s=email"])
def test_when_within_a_batch_a_foreign_consumer_took_it_nobody_knows(base: str) -> None:
    counter = FlowCounter(lambda _: False)
    counter.begin(0.0)
    counter.add(batch(base, f"{base}:2,P4", base, f"{base}:2,P4"))
    counter.take(11.0, exact=True, measured=True)
    (passage,) = counter.take(12.0, exact=True, measured=True).completions
    assert (passage.claimed_at, passage.gone_at, counter.last_claim_at) == (None, 10.0, 10.0)


def test_of_two_claims_in_one_batch_the_last_is_remembered() -> None:
    first, second = (f"order,c={TOKEN}.{us}:2,P7" for us in (1795220925443129, 1795220925443131))
    for order in ([first, second], [second, first]):
        counter = FlowCounter(lambda _: False)
        counter.begin(0.0)
        counter.add(EventBatch(1.0, {Box.NEW: {"order", "order,n=1"}, Box.CUR: dict.fromkeys(order).keys()},
                          {Box.NEW: {"order", "order,n=1"}, Box.CUR: {first}}))  # fmt: skip
        assert counter.last_claim_at == 1795220925.443131


def test_of_many_passages_an_even_sample_is_told() -> None:
    counter = FlowCounter(lambda _: False)
    counter.begin(0.0)
    for number in range(1_000):
        name = f"m{number}"
        counter.add(replace(batch(name, name + ":2,P4", name, name + ":2,P4"), at=float(number)))
    counter.take(1_000.0, exact=True, measured=True)
    flow = counter.take(1_001.0, exact=True, measured=True)
    assert flow.done == 1_000 and [one.gone_at for one in flow.completions] == [float(at) for at in range(0, 1_000, 10)]


def holders_of(*batches: EventBatch, aside: frozenset[str] = frozenset()) -> dict[str, tuple[int, int]]:
    """(done, failed) of each holder after these batches."""
    counter = FlowCounter(lambda _: False)
    counter.begin(0.0)
    totals: dict[str, tuple[int, int]] = {}
    for one in [*batches, None, None]:
        if one is not None:
            counter.add(one, aside=aside)
        for holder, found in counter.take(11.0, exact=True, measured=True, aside=aside).by_holder.items():
            done, failed = totals.get(holder, (0, 0))
            totals[holder] = done + found.done, failed + found.failed
    return totals


@pytest.mark.parametrize(
    ("batches", "aside", "expected"),
    [
        ([batch(NEW), batch(cur=CLAIM, from_new=NEW), batch(from_cur=CLAIM)], set(), {TOKEN: (1, 0)}),
        ([batch(NEW, CLAIM, NEW, CLAIM)], set(), {TOKEN: (1, 0)}),  # all within one look
        ([batch(cur=CLAIM), batch(f"{AGAIN},t=1795220999000000", from_cur=CLAIM)], set(), {TOKEN: (0, 1)}),
        ([batch(cur=CLAIM), batch(from_cur=CLAIM), batch(f"{AGAIN},e=exit-1")], set(), {TOKEN: (0, 1)}),  # the halves apart
        ([batch(cur=CLAIM), batch(AGAIN, from_cur=CLAIM)], set(), {TOKEN: (0, 0)}),  # given back, to be taken at once
        ([batch(cur=CLAIM), batch(f"{AGAIN},e=died", from_cur=CLAIM)], set(), {TOKEN: (0, 0)}),
        ([batch(cur=CLAIM), batch(from_cur=CLAIM)], {ID}, {TOKEN: (0, 1)}),  # rejected
        ([batch(cur=f"{NEW}:2,P4242"), batch(from_cur=f"{NEW}:2,P4242")], set(), {"P4242": (1, 0)}),
        ([batch(NEW, f"{NEW}:2,P4242", NEW, f"{NEW}:2,P4242")], set(), {"P4242": (1, 0)}),
    ],
)  # fmt: skip
def test_each_consumer_is_counted_by_itself(
    batches: list[EventBatch], aside: set[str], expected: dict[str, tuple[int, int]]
) -> None:
    assert holders_of(*batches, aside=frozenset(aside)) == expected
