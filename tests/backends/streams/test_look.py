"""What a look at a stream says: boxes, verdicts, flow, and what is missing."""

from __future__ import annotations

import socket as sockets
from collections.abc import Callable
from typing import Any

import pytest

from spooltop.model.look.observation import Observation
from spooltop.model.protocols import ListQuery
from spooltop.model.vocabulary import Box, Verdict

from .conftest import NAMES


def _add(jobs: Any, count: int) -> list[bytes]:
    pipe = jobs.pipeline(transaction=False)
    for number in range(count):
        pipe.xadd("jobs", {"data": b"%d" % number, "source": "mail"})
    return list(pipe.execute())


def _take(jobs: Any, consumer: str, count: int = 1) -> list[bytes]:
    ((_, entries),) = jobs.xreadgroup("work", consumer, {"jobs": ">"}, count=count)
    return [id for id, _ in entries]


def _counts(seen: Observation) -> dict[str, int | None]:
    return {str(box): state.count for box, state in seen.boxes.items() if state.count != 0}


def test_boxes_are_counted(jobs: Any, reader: Any) -> None:
    assert _counts(reader.see()) == {} and reader.see().complete
    _add(jobs, 5)
    taken = _take(jobs, "bob", 2)
    seen = reader.see()
    assert _counts(seen) == {"new": 3, "cur": 2} and seen.complete and seen.layout == "stream"
    assert [row.id.encode() for row in seen.claims] == taken
    assert seen.boxes[Box.NEW].oldest_at == pytest.approx(seen.taken_at, abs=60)


@pytest.mark.parametrize(("gone", "new"), [(slice(10, 11), 19), (slice(0, 5), 20)], ids=["of what waits", "all that was read"])
def test_a_lag_that_the_server_lost_is_counted(client: Any, reader_of: Callable[..., Any], gone: slice, new: int) -> None:
    ids = _add(client, 25)
    client.xgroup_create("jobs", "work", ids[4])
    client.xdel("jobs", *ids[gone])
    seen = reader_of().see()
    assert _counts(seen) == {"new": new} and seen.complete


def test_a_count_goes_on_while_consumers_read(
    client: Any, reader_of: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spooltop.backends.redis.streams.undelivered._STEP", 100)
    ids = _add(client, 270)
    client.xgroup_create("jobs", "work", ids[4])
    client.xdel("jobs", ids[250])
    reader = reader_of()
    first = reader.see()
    assert (first.boxes[Box.NEW].count, first.boxes[Box.NEW].complete, first.complete) == (100, False, False)
    _take(client, "bob", 30)
    assert client.xinfo_groups("jobs")[0]["lag"] is None
    seen = reader.see()
    assert seen.boxes[Box.NEW].count == 170 and not seen.complete
    seen = reader.see()
    assert seen.boxes[Box.NEW].count == 270 - 5 - 30 - 1 and seen.complete
    client.xdel("jobs", ids[100])  # was counted already
    assert [reader.see().boxes[Box.NEW].count for _ in range(3)] == [100, 200, 233]


def _verdict(reader: Any, name: str) -> tuple[Verdict, str]:
    reader.see()
    (one,) = [one for one in reader.consumers().consumers if one.owner.name == name]
    return one.verdict, one.evidence


def test_a_lease_decides_first(jobs: Any, reader: Any) -> None:
    name = f"{sockets.gethostname()}-999999-abcdef"
    _add(jobs, 1)
    _take(jobs, name)
    assert _verdict(reader, name) == (Verdict.UNKNOWN, "may be pid 999999 of this host, which has exited")
    jobs.hset(NAMES.consumers, name, "far 77")
    assert _verdict(reader, name) == (Verdict.DEAD, "its lease ended; it was pid 77 of far")
    jobs.set(NAMES.lease(name), "1", px=60_000)
    assert _verdict(reader, name) == (Verdict.ALIVE, "its lease runs")
    assert (reader.see().counts.alive, reader.see().counts.dead) == (1, 0)


def test_a_connection_of_its_name_decides_next(jobs: Any, reader_of: Callable[..., Any]) -> None:
    clock = [0.0]
    reader = reader_of(monotonic=lambda: clock[0])
    _add(jobs, 1)
    _take(jobs, "bob")
    verdict, evidence = _verdict(reader, "bob")
    assert verdict is Verdict.UNKNOWN and evidence.startswith("no lease, no connection has its name; asked ")
    jobs.execute_command("CLIENT", "SETNAME", "bob")
    clock[0] = 6.0  # the names of all connections are asked for every few seconds
    assert _verdict(reader, "bob") == (Verdict.ALIVE, "a connection has its name")
    jobs.execute_command("CLIENT", "SETNAME", "eve")
    jobs.xgroup_createconsumer("jobs", "work", "eve")
    assert _verdict(reader, "eve")[0] is Verdict.ALIVE  # and where a consumer is new
    jobs.execute_command("CLIENT", "SETNAME", "")


def test_a_number_in_a_name_proves_nothing(jobs: Any, reader_of: Callable[..., Any]) -> None:
    _add(jobs, 2)
    plain, vouched = reader_of(), reader_of(vouched=True)
    for number, verdict, words in ((1, Verdict.ALIVE, "which is running"), (4_000_000, Verdict.DEAD, "which has exited")):
        name = f"{sockets.gethostname()}-{number}"
        _take(jobs, name)
        assert _verdict(plain, name) == (Verdict.UNKNOWN, f"may be pid {number} of this host, {words}")
        assert _verdict(vouched, name)[0] is verdict  # the user says that such numbers are pids of this host
    assert {one.owner.pid for one in plain.consumers().consumers} == {None}


def test_idle_for_long_is_no_death(jobs: Any, reader: Any) -> None:
    _add(jobs, 1)
    (id,) = _take(jobs, "bob")
    jobs.xclaim("jobs", "work", "bob", 0, [id], idle=9 * 3_600_000, justid=True)
    assert _verdict(reader, "bob")[0] is Verdict.UNKNOWN
    (claim,) = reader.see().claims
    assert claim.in_box_since == pytest.approx(reader.see().taken_at - 9 * 3600, abs=60)


def test_counts_are_exact_where_claims_are_many(jobs: Any, reader: Any) -> None:
    _add(jobs, 3_000)
    _take(jobs, "bob", 2_000)
    name = "gone"
    jobs.hset(NAMES.consumers, name, "far 77")
    _take(jobs, name, 700)
    seen = reader.see()
    assert (seen.counts.unknown, seen.counts.dead, seen.boxes[Box.CUR].count) == (2_000, 700, 2_700)
    assert 20 <= len(seen.claims) <= 100 and {row.verdict for row in seen.claims} == {Verdict.UNKNOWN, Verdict.DEAD}


def test_the_flow_comes_from_counters(jobs: Any, reader: Any) -> None:
    reader.see()
    _add(jobs, 10)
    ids = _take(jobs, "bob", 6)
    jobs.xack("jobs", "work", *ids[:4])
    flow = reader.see().flow
    assert (flow.arrived, flow.claimed, flow.done, flow.exact, flow.measured) == (10, 6, 4, True, True)
    jobs.xack("jobs", "work", ids[4])
    jobs.xadd(NAMES.rejected, {"data": "x"})
    assert reader.see().flow.done == 0


def test_groups_are_cursors(jobs: Any, reader: Any) -> None:
    jobs.xgroup_create("jobs", "other", "0")
    ids = _add(jobs, 3)
    _take(jobs, "bob", 2)
    (source,) = reader.see().cursors
    assert source.sections == {"work": ids[1].decode(), "other": "0-0"} and not source.in_file
    assert source.behind == {"work": (1, True), "other": (3, True)}
    assert reader.see().cursors[0].stamp == source.stamp
    jobs.xgroup_setid("jobs", "other", ids[1])  # the server does not know its lag from now on
    jobs.xadd("jobs", {"data": "x"})
    assert reader.see().cursors[0].behind == {"work": (2, True), "other": (1, False)}


def test_memory_and_the_length_to_which_a_stream_is_trimmed_are_capacities(jobs: Any, reader_of: Callable[..., Any]) -> None:
    assert reader_of().see().capacities == ()
    _add(jobs, 8)
    _take(jobs, "bob", 3)
    (length,) = reader_of(maxlen=10).see().capacities
    assert (length.name, length.free, length.total) == ("maxlen", 2, 10)
    (length,) = reader_of(maxlen=5).see().capacities
    assert (length.free, length.full) == (0, "the oldest that wait are dropped")
    jobs.config_set("maxmemory", 100_000_000)
    (memory,) = reader_of().see().capacities
    assert memory.name == "memory" and memory.total == 100_000_000 and 0 < memory.free < 100_000_000


def test_a_claim_without_its_entry_is_a_problem(jobs: Any, reader: Any) -> None:
    ids = _add(jobs, 3)
    _take(jobs, "bob")
    assert reader.see().findings == ()
    jobs.xtrim("jobs", minid=ids[1], approximate=False)
    (found,) = reader.see().findings
    assert found.code == "lost" and found.ids == (ids[0].decode(),)


def test_a_stream_that_goes_is_said_and_comes_back(jobs: Any, reader: Any) -> None:
    _add(jobs, 3)
    reader.see()
    jobs.delete("jobs")
    seen = reader.see()
    box = seen.boxes[Box.NEW]
    assert (box.error, box.count, seen.complete) == ("there is no such stream any more", 3, False)
    jobs.set("jobs", "text")
    assert reader.see().boxes[Box.NEW].error == "it is not a stream any more"
    jobs.delete("jobs")
    jobs.xadd("jobs", {"data": "1"})
    assert reader.see().boxes[Box.NEW].error == "the stream has no such group any more"
    jobs.xgroup_create("jobs", "work", "0")
    assert _counts(reader.see()) == {"new": 1} and not reader.see().boxes[Box.NEW].error


def test_large_entries_are_not_fetched_by_a_look(jobs: Any, reader: Any) -> None:
    jobs.xadd("jobs", {"data": b"x" * 1_000_000})
    assert reader.see().boxes[Box.NEW].count == 1
    before = jobs.info("stats")["total_net_output_bytes"]
    reader.see()
    assert jobs.info("stats")["total_net_output_bytes"] - before < 50_000


def test_what_was_handed_back_and_is_passed_over_is_a_problem(jobs: Any, reader: Any) -> None:
    put = jobs.time()[0] * 1000 - 200_000
    first, second = [jobs.xadd("jobs", {"data": "x"}, id=f"{put}-{number}") for number in range(2)]
    _take(jobs, "bob", 2)
    day = 86_400_000
    jobs.xclaim("jobs", "work", "~spooltop", 0, [first], idle=day + 30_000, justid=True)
    _add(jobs, 3)
    _take(jobs, "bob", 3)
    assert reader.see().findings == ()  # whoever takes over what others left may do so within a minute
    jobs.xclaim("jobs", "work", "~spooltop", 0, [second], idle=day + 80_000, justid=True)
    jobs.xclaim("jobs", "work", "~spooltop", 0, [first], idle=day + 80_000, justid=True)
    (found,) = reader.see().findings
    assert found.text == "2 were handed back 1m ago, 3 newer ones passed them: its consumers only read new entries"
    assert (found.code, found.count, found.box, found.filter) == ("handed-back", 2, Box.NEW, "tries:>0")
    jobs.xack("jobs", "work", first, second)
    assert reader.see().findings == ()


def test_an_entry_of_many_fields_is_looked_at(jobs: Any, reader: Any) -> None:
    jobs.execute_command("XADD", "jobs", "*", *(str(word) for word in range(40_000)))
    assert _counts(reader.see()) == {"new": 1}
    (row,) = reader.listing(ListQuery(Box.NEW)).window(0, 1)
    assert reader.read(row.key, 100).size > 300_000


def test_many_idle_consumers_cost_few_commands(jobs: Any, reader_of: Callable[..., Any]) -> None:
    clock = [0.0]
    reader = reader_of(monotonic=lambda: clock[0])
    for number in range(700):
        jobs.xgroup_createconsumer("jobs", "work", f"idle{number}")
    _add(jobs, 1)
    _take(jobs, "bob")
    jobs.hset(NAMES.consumers, "bob", "far 77")
    jobs.set(NAMES.lease("bob"), "1", px=600_000)
    reader.see()

    def asked() -> int:
        return int(jobs.info("commandstats")["cmdstat_pttl"]["calls"])

    for _ in range(4):
        before = asked()
        seen = reader.see()
        assert asked() - before <= 200 and seen.counts.alive == 1
    jobs.set(NAMES.lease("idle650"), "1")  # it is heard of in turn
    assert any(_verdict(reader, "idle650")[0] is Verdict.ALIVE for _ in range(5))
    jobs.delete(NAMES.lease("bob"))
    assert reader.see().counts.dead == 1  # who has claims is asked for in each look
    jobs.set(NAMES.lease("idle3"), "1", px=5_000)
    assert any(_verdict(reader, "idle3")[0] is Verdict.ALIVE for _ in range(5))
    jobs.delete(NAMES.lease("idle3"))
    clock[0] = 6.0  # by now it should have ended
    assert _verdict(reader, "idle3")[0] is Verdict.UNKNOWN


def test_a_stream_that_nobody_trims_is_told(
    jobs: Any, reader_of: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spooltop.backends.redis.streams.boxes._UNTRIMMED", 100)
    ids = _add(jobs, 150)
    jobs.xack("jobs", "work", *_take(jobs, "bob", 120)[:110])
    (found,) = reader_of().see().findings
    assert found.code == "untrimmed" and found.is_note and found.text.startswith(
        "nobody trims the stream: 110 done entries are kept, about "
    )
    assert reader_of(maxlen=150).see().findings == ()  # its producers begin to trim it above that
    jobs.xdel("jobs", ids[0])
    assert reader_of().see().findings == ()
