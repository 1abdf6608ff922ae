"""Lists of a stream: windows anywhere, orders, filters, contents, and where a message is."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from spooltop.backends.redis.streams.listing import PagedListing
from spooltop.backends.redis.streams.server.requests import ServerTrouble
from spooltop.backends.redis.trouble import Kind, Trouble
from spooltop.errors import Unreadable
from spooltop.model.protocols import FIRST_SORT, Listing, ListQuery, Sort
from spooltop.model.row import Row
from spooltop.model.vocabulary import Box

from .conftest import NAMES

LISTED_AT_MOST = "spooltop.backends.redis.streams.reader.LISTED_AT_MOST"


def _add(jobs: Any, count: int) -> list[str]:
    """Adds entries, one every 10 ms of the year 2001."""
    pipe = jobs.pipeline(transaction=False)
    for number in range(count):
        pipe.xadd("jobs", {"data": b"%d" % number, "source": f"s{number % 3}"}, id=f"{1_000_000_000_000 + number * 10}-0")
    return [id.decode() for id in pipe.execute()]


def _ids(found: Listing, start: int, stop: int) -> list[str]:
    return [row.id for row in found.window(start, stop)]


def test_a_window_is_anywhere_and_a_row_is_found_again(jobs: Any, reader: Any) -> None:
    ids = _add(jobs, 5_000)
    reader.see()
    oldest, newest = reader.listing(ListQuery(Box.NEW)), reader.listing(ListQuery(Box.NEW, sort=Sort("age", False)))
    assert len(oldest) == len(newest) == 5_000 and oldest.complete
    for start in (0, 40, 2_500, 4_950, 4_990, 1_200):
        assert _ids(oldest, start, start + 50) == ids[start : start + 50]
        assert _ids(newest, start, start + 50) == ids[::-1][start : start + 50]
    assert list(oldest.keys()) == [("new", id) for id in ids] and list(newest.keys()) == [("new", id) for id in ids[::-1]]
    for at in (0, 17, 1_700, 4_999):
        assert oldest.find(("new", ids[at])) == at and newest.find(("new", ids[at])) == 4_999 - at
    assert [oldest.find(key) for key in (("new", "5-5"), ("cur", ids[0]), "x")] == [None] * 3


def test_far_from_both_ends_a_place_is_estimated(jobs: Any, reader: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spooltop.backends.redis.streams.parts._WALKED", 500)
    ids = _add(jobs, 5_000)
    reader.see()
    found = reader.listing(ListQuery(Box.NEW))
    middle = _ids(found, 2_500, 2_550)
    assert middle == ids[ids.index(middle[0]) :][:50] and abs(ids.index(middle[0]) - 2_500) < 10
    assert _ids(found, 2_550, 2_560) == ids[ids.index(middle[-1]) + 1 :][:10]  # and goes on exactly from there
    place = found.find(("new", ids[3_000]))
    assert place is not None and abs(place - 3_000) < 10 and _ids(found, place, place + 1) == [ids[3_000]]


def test_what_was_handed_back_comes_first_and_what_is_delayed_last(jobs: Any, reader: Any) -> None:
    ids = _add(jobs, 6)
    jobs.xreadgroup("work", "bob", {"jobs": ">"}, count=3)
    jobs.xclaim("jobs", "work", "~spooltop", 0, [ids[1]], justid=True, retrycount=4)
    jobs.xclaim("jobs", "work", "~later", 0, [ids[0]], justid=True)
    jobs.zadd(NAMES.later, {ids[0]: 4_000_000_000_000})
    seen = reader.see()
    assert (seen.boxes[Box.NEW].count, [row.id for row in seen.claims]) == (5, [ids[2]])
    assert [consumer.owner.name for consumer in reader.consumers().consumers] == ["bob"]
    rows = reader.listing(ListQuery(Box.NEW)).window(0, 9)
    assert [row.id for row in rows] == [ids[1], *ids[3:], ids[0]]
    assert (rows[0].attempt, rows[0].size, rows[0].source) == (4, 1, "s1") and rows[-1].not_before == 4_000_000_000.0


def test_claims_are_in_the_order_of_their_verdicts(jobs: Any, reader: Any) -> None:
    ids = _add(jobs, 2_300)
    jobs.xreadgroup("work", "alive", {"jobs": ">"}, count=1_000)
    jobs.xreadgroup("work", "dead", {"jobs": ">"}, count=1_200)
    jobs.set(NAMES.lease("alive"), "1")
    jobs.hset(NAMES.consumers, "dead", "far 7")
    reader.see()
    found = reader.listing(ListQuery(Box.CUR, sort=FIRST_SORT["cur"]))
    assert len(found) == 2_200 and _ids(found, 0, 2) == ids[1_000:1_002] and _ids(found, 1_199, 1_201) == [ids[2_199], ids[0]]
    assert _ids(found, 2_150, 2_200) == ids[950:1_000] and str(found.window(1_150, 1_151)[0].verdict) == "dead"
    (row,) = found.window(1_300, 1_301)
    assert row.key == ("cur", ids[100], "alive", 1) and found.find(row.key) == 1_300 and row.size == len("100")


def test_filters_look_at_contents(jobs: Any, reader: Any) -> None:
    ids = _add(jobs, 300)
    jobs.xreadgroup("work", "bob", {"jobs": ">"}, count=30)
    reader.see()
    found = reader.listing(ListQuery(Box.NEW, filter="src:s1"))
    assert len(found) == 90 and found.complete and {row.source for row in found.window(0, 90)} == {"s1"}
    assert len(reader.listing(ListQuery(Box.CUR, filter="holder:bob src:s2"))) == 10
    assert _ids(reader.listing(ListQuery(Box.CUR, sort=Sort("name", False))), 0, 2) == ids[:2]


def test_a_filter_looks_at_some_thousands_and_says_so(jobs: Any, reader: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LISTED_AT_MOST, 200)
    _add(jobs, 300)
    reader.see()
    found = reader.listing(ListQuery(Box.NEW, filter="src:s1"))
    assert not found.complete and len(found) == 67 and found.ordered_over == 200
    assert reader.listing(ListQuery(Box.NEW)).ordered_over is None  # in the order of the stream it has all


def test_contents_are_read(jobs: Any, reader: Any) -> None:
    id = jobs.xadd("jobs", {"data": b"hello\n", "source": "mail"}).decode()
    foreign = jobs.xadd("jobs", {"a": "1", "b": "ü"}).decode()
    reader.see()
    payload = reader.read(("new", id), 3)
    assert (payload.data, payload.size, payload.truncated) == (b"hel", 6, True) and ("source", "mail") in payload.facts
    other = reader.read(("new", foreign), 999)
    assert json.loads(other.data) == {"a": "1", "b": "ü"} and [name for name, _ in other.facts] == ["entry", "stream"]
    for key in (("new", "1-1"), "nonsense"):
        with pytest.raises(Unreadable):
            reader.read(key, 9)


@pytest.mark.parametrize(("box", "key"), [(Box.REJECTED, NAMES.rejected), (Box.HELD, NAMES.held), (Box.TRASH, NAMES.trash)])
def test_what_was_set_aside_is_listed(jobs: Any, reader_of: Callable[..., Any], box: Box, key: str) -> None:
    reader = reader_of(retention=50.0)
    jobs.xadd(key, {"data": "x", "~id": "5000-1", "~tries": "3", "~why": "no", "~by": "me", "~group": "work"}, id="9000-0")
    state = reader.see().boxes[box]
    assert (state.count, state.oldest_at) == (1, 9.0)
    (row,) = reader.listing(ListQuery(box)).window(0, 9)
    assert (row.key, row.id, row.attempt, row.reason, row.enqueued_at, row.in_box_since, row.size) == (
        (box.value, "9000-0"), "5000-1", 3, "no", 5.0, 9.0, 1,
    )  # fmt: skip
    done = {Box.REJECTED: "set aside by me", Box.HELD: "held by me", Box.TRASH: "purged from cur by me"}
    jobs.xadd(key, {"data": "x", "~id": "5000-2", "~from": "cur", "~by": "me", "~op": "7f3a"}, id="9001-0")
    reader.see()
    assert [one.reason for one in reader.listing(ListQuery(box)).window(0, 9) if one.name == "9001-0"] == [done[box]]
    assert ("operation", "7f3a") in reader.read((box.value, "9001-0"), 9).facts
    assert row.expires_at == (59.0 if box is Box.TRASH else None) and reader.read(row.key, 9).data == b"x"


def test_a_message_is_followed(jobs: Any, reader: Any) -> None:
    ids = _add(jobs, 2)
    reader.see()
    assert reader.follow([ids[0]], 0.0)[ids[0]].box is Box.NEW
    jobs.xreadgroup("work", "bob", {"jobs": ">"}, count=1)
    reader.see()
    found = reader.follow([*ids, "x"], 0.0)
    assert (found[ids[0]].box, found[ids[1]].box, found["x"].box) == (Box.CUR, Box.NEW, None)
    jobs.xack("jobs", "work", ids[0])
    reader.see()
    assert reader.follow([ids[0]], 0.0)[ids[0]].gone_at is not None


@pytest.mark.parametrize("filter", ["holder:w7", "w7", "verdict:dead", "!verdict:unknown w7"])
def test_a_filter_for_a_consumer_finds_all_it_holds(
    jobs: Any, reader: Any, monkeypatch: pytest.MonkeyPatch, filter: str
) -> None:
    monkeypatch.setattr(LISTED_AT_MOST, 200)
    _add(jobs, 600)
    jobs.hset(NAMES.consumers, "w7", "far 77")
    for consumer, count in (("gone", 300), ("w7", 150), ("w8", 150)):
        jobs.xreadgroup("work", consumer, {"jobs": ">"}, count=count)
    jobs.hset(NAMES.consumers, "gone", "far 78")
    jobs.set(NAMES.lease("gone"), "1")
    reader.see()
    found = reader.listing(ListQuery(Box.CUR, filter=filter))
    assert len(found) == 150 and {row.owner.name for row in found.window(0, 150) if row.owner is not None} == {"w7"}
    assert found.complete is ("w7" not in filter.split())  # a text may be a source of other messages too


def test_of_a_window_that_cannot_be_fetched_the_rows_that_were_shown_stay() -> None:
    row = Row(key=("new", "2-0"), box=Box.NEW, id="2-0", name="2-0")

    class FakePart:
        count, away = 5, False

        def window(self, start: int, stop: int) -> list[Row]:
            if self.away:
                raise ServerTrouble(Trouble(Kind.AWAY, "away", "wait"))
            return [row] * (min(stop, self.count) - start)

    part: Any = FakePart()
    shown = PagedListing(ListQuery(Box.NEW), [part], backwards=False, complete=True, generation=1)
    assert shown.window(2, 4) == [row] * 2
    part.away = True
    assert [len(shown.window(start, 5)) for start in range(5)] == [0, 0, 2, 1, 0]
