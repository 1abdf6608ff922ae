"""What a look at a stream says: boxes, verdicts, flow, what is missing, its lists; and the commands that a server gets for it."""

from __future__ import annotations

import json
import os
import re
import socket as sockets
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from redis import Redis

from spooltop.backends.redis.client import Login, endpoint
from spooltop.backends.redis.stream_names import StreamNames
from spooltop.backends.redis.streams.server import Looker, StreamServer
from spooltop.control import Control, open_control
from spooltop.errors import Unavailable, Unreadable
from spooltop.model.backend import FIRST_SORT, Listing, ListQuery, Sort
from spooltop.model.plan import Outcome, Plan, Selection
from spooltop.model.snapshot import Observation
from spooltop.model.vocabulary import Action, Box, Json, Verdict
from tests.builders import GONE
from tests.cli.streams import spooltop
from tests.scratch import own_state
from tests.stream_servers import EACH, free_port, running

from .conftest import key, lease

Opened = Callable[..., Control]


@pytest.fixture
def control(jobs: Any, opened: Opened) -> Control:
    return opened()


def add(jobs: Any, count: int, *, old: bool = False) -> list[str]:
    """Adds entries of three sources, now; ``old``: one every 10 ms of the year 2001."""
    pipe = jobs.pipeline(transaction=False)
    for number in range(count):
        id = f"{1_000_000_000_000 + number * 10}-0" if old else "*"
        pipe.xadd("jobs", {"data": b"%d" % number, "source": f"s{number % 3}"}, id=id)
    return [id.decode() for id in pipe.execute()]


def take(jobs: Any, consumer: str, count: int = 1) -> list[str]:
    ((_, entries),) = jobs.xreadgroup("work", consumer, {"jobs": ">"}, count=count)
    return [id.decode() for id, _ in entries]


def see(control: Control) -> Observation:
    return control.look().observation


def counts(seen: Observation) -> dict[str, int | None]:
    return {str(box): state.count for box, state in seen.boxes.items() if state.count != 0}


def verdict_on(control: Control, name: str) -> tuple[Verdict, str]:
    control.look()
    (row,) = [row for row in control.consumers().consumers if row.owner.name == name]
    return row.verdict, row.evidence


def test_boxes_are_counted_and_the_flow_comes_from_counters(jobs: Any, control: Control) -> None:
    assert counts(see(control)) == {}
    add(jobs, 10)
    ids = take(jobs, "bob", 6)
    jobs.xack("jobs", "work", *ids[:4])
    seen = see(control)
    assert counts(seen) == {"new": 4, "cur": 2} and seen.complete and [row.id for row in seen.claims] == ids[4:]
    assert seen.boxes[Box.NEW].oldest_at == pytest.approx(seen.taken_at, abs=60)
    flow = seen.flow
    assert (flow.arrived, flow.claimed, flow.done, flow.exact, flow.measured) == (10, 6, 4, True, True)
    jobs.xack("jobs", "work", ids[4])
    jobs.xadd(key("rejected"), {"data": "x"})
    assert see(control).flow.done == 0


@pytest.mark.parametrize(("gone", "new"), [(slice(10, 11), 19), (slice(0, 5), 20)], ids=["of what waits", "all that was read"])
def test_a_lag_that_the_server_lost_is_counted(client: Any, opened: Opened, gone: slice, new: int) -> None:
    ids = add(client, 25)
    client.xgroup_create("jobs", "work", ids[4])
    client.xdel("jobs", *ids[gone])
    seen = see(opened())
    assert counts(seen) == {"new": new} and seen.complete


def test_a_count_of_very_many_goes_on_while_consumers_read(client: Any, opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spooltop.backends.redis.streams.reader._STEP", 100)
    ids = add(client, 270)
    client.xgroup_create("jobs", "work", ids[4])
    client.xdel("jobs", ids[250])  # the server has lost count
    control = opened()
    seen = [see(control)]
    take(client, "bob", 30)
    seen += [see(control), see(control)]
    assert [each.boxes[Box.NEW].count for each in seen] == [100, 170, 270 - 5 - 30 - 1]
    assert [each.complete for each in seen] == [False, False, True]


def test_a_lease_decides_first(jobs: Any, control: Control) -> None:
    name = f"{sockets.gethostname()}-{GONE}-abcdef"
    add(jobs, 1)
    take(jobs, name)
    verdict, evidence = verdict_on(control, name)
    assert verdict is Verdict.UNKNOWN and evidence.startswith(f"may be pid {GONE} of this host, ")
    jobs.hset(key("consumers"), name, "far 77")
    assert verdict_on(control, name) == (Verdict.DEAD, "its lease ended; it was pid 77 of far")
    jobs.set(lease(name), "1", px=60_000)
    assert verdict_on(control, name) == (Verdict.ALIVE, "its lease runs")
    assert (see(control).counts.alive, see(control).counts.dead) == (1, 0)


def test_a_connection_of_its_name_decides_next_and_idle_for_long_is_no_death(jobs: Any, opened: Opened) -> None:
    add(jobs, 1)
    (id,) = take(jobs, "bob")
    jobs.xclaim("jobs", "work", "bob", 0, [id], idle=9 * 3_600_000, justid=True)
    control = opened()
    verdict, evidence = verdict_on(control, "bob")
    assert verdict is Verdict.UNKNOWN and evidence.startswith("no lease, no connection has its name; asked ")
    (claim,) = see(control).claims
    assert claim.in_box_since == pytest.approx(see(control).taken_at - 9 * 3600, abs=60)
    jobs.execute_command("CLIENT", "SETNAME", "bob")
    assert verdict_on(opened(), "bob") == (Verdict.ALIVE, "a connection has its name")
    jobs.execute_command("CLIENT", "SETNAME", "eve")
    jobs.xgroup_createconsumer("jobs", "work", "eve")
    assert verdict_on(control, "eve")[0] is Verdict.ALIVE  # the names are asked for again where a consumer is new
    jobs.execute_command("CLIENT", "SETNAME", "")


def test_a_number_in_a_name_proves_nothing(jobs: Any, opened: Opened) -> None:
    add(jobs, 2)
    plain, vouched = opened(), opened(SPOOLTOP_CLAIMS_PIDS="this-host")
    for number, verdict in ((1, Verdict.ALIVE), (GONE, Verdict.DEAD)):
        name = f"{sockets.gethostname()}-{number}"
        take(jobs, name)
        assert verdict_on(plain, name)[0] is Verdict.UNKNOWN
        assert verdict_on(vouched, name)[0] is verdict  # the user says that such numbers are pids of this host
    assert {row.owner.pid for row in plain.consumers().consumers} == {None}


def test_counts_are_exact_where_claims_are_many(jobs: Any, control: Control) -> None:
    add(jobs, 3_000)
    take(jobs, "bob", 2_000)
    jobs.hset(key("consumers"), "gone", "far 77")
    take(jobs, "gone", 700)
    seen = see(control)
    assert (seen.counts.unknown, seen.counts.dead, seen.boxes[Box.CUR].count) == (2_000, 700, 2_700)
    assert 20 <= len(seen.claims) <= 100 and {row.verdict for row in seen.claims} == {Verdict.UNKNOWN, Verdict.DEAD}


def test_a_stream_that_goes_is_said_and_comes_back(jobs: Any, control: Control) -> None:
    add(jobs, 3)
    control.look()
    jobs.delete("jobs")
    seen = see(control)
    box = seen.boxes[Box.NEW]
    assert (box.error, box.count, seen.complete) == ("there is no such stream any more", 3, False)
    jobs.set("jobs", "text")
    assert see(control).boxes[Box.NEW].error == "it is not a stream any more"
    jobs.delete("jobs")
    jobs.xadd("jobs", {"data": "1"})
    assert see(control).boxes[Box.NEW].error == "the stream has no such group any more"
    jobs.xgroup_create("jobs", "work", "0")
    assert counts(see(control)) == {"new": 1} and not see(control).boxes[Box.NEW].error


def test_entries_that_are_large_or_of_many_fields_are_not_fetched_by_a_look(jobs: Any, control: Control) -> None:
    jobs.xadd("jobs", {"data": b"x" * 1_000_000})
    jobs.execute_command("XADD", "jobs", "*", *(str(word) for word in range(40_000)))
    assert counts(see(control)) == {"new": 2}
    before = jobs.info("stats")["total_net_output_bytes"]
    control.look()
    assert jobs.info("stats")["total_net_output_bytes"] - before < 50_000
    _, row = control.listing(ListQuery(Box.NEW)).window(0, 2)
    assert control.read(row.key, 100).size > 300_000


def test_large_messages_that_were_set_aside_are_read_once_and_hide_nothing_of_the_stream(jobs: Any, control: Control) -> None:
    for box in ("rejected", "held", "trash"):
        jobs.xadd(key(box), {"data": b"x" * 4_000_000, "~id": "5-0"})
    see(control)
    jobs.config_resetstat()
    see(control)
    assert "cmdstat_xrange" not in jobs.info("commandstats")
    for _ in range(2):
        add(jobs, 2)
        take(jobs, "bob")
        assert see(control).boxes[Box.NEW].oldest_at is not None


def test_what_was_handed_back_and_is_passed_over_is_a_problem(jobs: Any, control: Control) -> None:
    put = jobs.time()[0] * 1000 - 200_000
    first, second = [jobs.xadd("jobs", {"data": "x"}, id=f"{put}-{number}") for number in range(2)]
    take(jobs, "bob", 2)
    day = 86_400_000
    jobs.xclaim("jobs", "work", "~spooltop", 0, [first], idle=day + 30_000, justid=True)
    add(jobs, 3)
    take(jobs, "bob", 3)
    assert see(control).findings == ()  # whoever takes over what others left may do so within a minute
    jobs.xclaim("jobs", "work", "~spooltop", 0, [first, second], idle=day + 80_000, justid=True)
    (finding,) = see(control).findings
    assert finding.text == "2 were handed back 1m ago, 3 newer ones passed them: its consumers only read new entries"
    assert (finding.code, finding.count, finding.box, finding.filter) == ("handed-back", 2, Box.NEW, "tries:>0")
    jobs.xack("jobs", "work", first, second)
    assert see(control).findings == ()


def test_a_lease_that_has_run_out_since_it_was_asked_for_is_not_taken_for_a_running_one(jobs: Any, control: Control) -> None:
    jobs.xgroup_createconsumer("jobs", "work", "idle")
    jobs.set(lease("idle"), "1", px=1_000)
    assert verdict_on(control, "idle")[0] is Verdict.ALIVE
    while jobs.exists(lease("idle")):
        continue
    assert verdict_on(control, "idle")[0] is Verdict.UNKNOWN


def test_a_stream_that_nobody_trims_is_told(jobs: Any, opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spooltop.backends.redis.streams.reader._UNTRIMMED", 100)
    add(jobs, 150)
    jobs.xack("jobs", "work", *take(jobs, "bob", 120)[:110])
    (finding,) = see(opened()).findings
    assert finding.is_note and finding.text.startswith("nobody trims the stream: 110 done entries are kept, about ")
    assert see(opened(SPOOLTOP_STREAM_MAXLEN="150")).findings == ()  # its producers begin to trim it above that


def test_facts_about_the_server_are_not_asked_for_at_each_look(jobs: Any, control: Control) -> None:
    def asked() -> int:
        return int(jobs.info("commandstats")["cmdstat_memory|usage"]["calls"])

    control.look()
    before = asked()
    control.look()
    assert asked() == before > 0


LISTED_AT_MOST = "spooltop.backends.redis.streams.reader.LISTED_AT_MOST"


def ids_of(listing: Listing, start: int, stop: int) -> list[str]:
    return [row.id for row in listing.window(start, stop)]


def test_a_window_is_anywhere_and_a_row_is_found_again(jobs: Any, control: Control) -> None:
    ids = add(jobs, 5_000, old=True)
    control.look()
    oldest, newest = control.listing(ListQuery(Box.NEW)), control.listing(ListQuery(Box.NEW, sort=Sort("age", False)))
    assert len(oldest) == len(newest) == 5_000 and oldest.complete
    for start in (0, 40, 2_500, 4_950, 4_990, 1_200):
        assert ids_of(oldest, start, start + 50) == ids[start : start + 50]
        assert ids_of(newest, start, start + 50) == ids[::-1][start : start + 50]
    assert ids_of(oldest, 1_210, 1_220) == ids[1_210:1_220]  # within what was fetched last
    assert list(oldest.keys()) == [("new", id) for id in ids] and list(newest.keys()) == [("new", id) for id in ids[::-1]]
    for at in (0, 17, 1_700, 4_999):
        assert oldest.find(("new", ids[at])) == at and newest.find(("new", ids[at])) == 4_999 - at
    assert [oldest.find(key) for key in (("new", "5-5"), ("cur", ids[0]), "x")] == [None] * 3


def test_claims_of_a_consumer_without_a_name_are_claims(jobs: Any, control: Control) -> None:
    ids = add(jobs, 30)
    assert take(jobs, "", 20) == ids[:20]
    control.look()
    listing = control.listing(ListQuery(Box.CUR))
    assert len(listing) == 20 and set(ids_of(listing, 0, 20)) == set(ids[:20])
    assert {row.owner.name for row in listing.window(0, 20) if row.owner is not None} == {""}


def test_claims_are_in_the_order_of_their_verdicts(jobs: Any, control: Control) -> None:
    ids = add(jobs, 2_300, old=True)
    take(jobs, "alive", 1_000)
    take(jobs, "dead", 1_200)
    jobs.set(lease("alive"), "1")
    jobs.hset(key("consumers"), "dead", "far 7")
    control.look()
    listing = control.listing(ListQuery(Box.CUR, sort=FIRST_SORT["cur"]))
    assert len(listing) == 2_200 and ids_of(listing, 0, 2) == ids[1_000:1_002]
    assert ids_of(listing, 1_199, 1_201) == [ids[2_199], ids[0]] and ids_of(listing, 2_150, 2_200) == ids[950:1_000]
    assert str(listing.window(1_150, 1_151)[0].verdict) == "dead"
    (row,) = listing.window(1_300, 1_301)
    assert row.key == ("cur", ids[100], "alive", 1) and listing.find(row.key) == 1_300 and row.size == len("100")
    assert ids_of(control.listing(ListQuery(Box.CUR, sort=Sort("name", False))), 0, 2) == ids[:2]


def test_a_filter_looks_at_the_contents_of_some_thousands_and_says_so(
    jobs: Any, url: str, control: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(jobs, 330)
    take(jobs, "bob", 30)
    control.look()
    listing = control.listing(ListQuery(Box.NEW, filter="src:s1"))
    assert len(listing) == 100 and listing.complete and {row.source for row in listing.window(0, 100)} == {"s1"}
    assert len(control.listing(ListQuery(Box.CUR, filter="holder:bob src:s2"))) == 10
    monkeypatch.setattr(LISTED_AT_MOST, 200)
    listing = control.listing(ListQuery(Box.NEW, filter="src:s1"))
    assert not listing.complete and len(listing) == 67 and listing.ordered_over == 200
    assert control.listing(ListQuery(Box.NEW)).ordered_over is None  # in the order of the stream it has all
    assert "only the first 200 messages were filtered and sorted" in spooltop("ls", url, "--box", "new", "--filter", "src:s1").err


@pytest.mark.parametrize("filter", ["holder:w7", "w7", "verdict:dead", "!verdict:unknown w7"])
def test_a_filter_for_a_consumer_finds_all_it_holds(
    jobs: Any, control: Control, monkeypatch: pytest.MonkeyPatch, filter: str
) -> None:
    monkeypatch.setattr(LISTED_AT_MOST, 200)
    add(jobs, 600)
    for consumer, count in (("gone", 300), ("w7", 150), ("w8", 150)):
        take(jobs, consumer, count)
    jobs.hset(key("consumers"), mapping={"w7": "far 77", "gone": "far 78"})
    jobs.set(lease("gone"), "1")
    control.look()
    listing = control.listing(ListQuery(Box.CUR, filter=filter))
    assert len(listing) == 150 and {row.owner.name for row in listing.window(0, 150) if row.owner is not None} == {"w7"}
    assert listing.complete is ("w7" not in filter.split())  # a text may be a source of other messages too


def test_contents_are_read_and_a_message_is_followed(jobs: Any, control: Control) -> None:
    id = jobs.xadd("jobs", {"data": b"hello\n", "source": "mail"}).decode()
    foreign = jobs.xadd("jobs", {"a": "1", "b": "ü"}).decode()
    control.look()
    payload = control.read(("new", id), 3)
    assert (payload.data, payload.size, payload.truncated) == (b"hel", 6, True) and ("source", "mail") in payload.facts
    other = control.read(("new", foreign), 999)
    assert json.loads(other.data) == {"a": "1", "b": "ü"} and [name for name, _ in other.facts] == ["entry", "stream"]
    jobs.xadd(key("trash"), {"data": "x", "~id": "5-2", "~by": "me", "~op": "7f3a"}, id="9001-0")
    control.look()
    assert ("operation", "7f3a") in control.read(("trash", "9001-0"), 9).facts
    for wrong in (("new", "1-1"), "nonsense"):
        with pytest.raises(Unreadable):
            control.read(wrong, 9)
    assert control.follow([id], 0.0)[id].box is Box.NEW
    take(jobs, "bob")
    control.look()
    followed = control.follow([id, foreign, "x"], 0.0)
    assert [followed[each].box for each in (id, foreign, "x")] == [Box.CUR, Box.NEW, None]
    jobs.xack("jobs", "work", id)
    control.look()
    assert control.follow([id], 0.0)[id].gone_at is not None


_HOLDS = """
import os, socket, sys
from redis import Redis
server = Redis(host=sys.argv[1], port=int(sys.argv[2]))
name = f"{socket.gethostname()}-{os.getpid()}"
server.xreadgroup("work", name, {"jobs": ">"}, count=2)
print(name, flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module", params=EACH)
def port(request: pytest.FixtureRequest) -> Iterator[int]:
    with TemporaryDirectory(prefix="spooltop-streams-") as folder:
        with running(request.param, Path(folder), "--port", str(port := free_port()), "--bind", "127.0.0.1", "::1"):
            yield port


@pytest.fixture
def server(port: int) -> Iterator[Any]:
    with Redis(port=port) as made:
        made.flushall()
        made.xgroup_create("jobs", "work", "0", mkstream=True)
        for number in range(6):
            made.xadd("jobs", {"data": str(number)})
        yield made


class Holder:
    """A consumer with two claims in a process of its own, named after its host and its pid, and a Control that looks from this
    one; both come to the server at ``host``."""

    def __init__(self, host: str, port: int, control: Control) -> None:
        words = [sys.executable, "-c", _HOLDS, host, str(port)]
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.control, self.pid, self.name = control, self.process.pid, self.process.stdout.readline().strip()

    def die(self) -> None:
        self.process.kill()
        self.process.communicate()

    def verdicts(self) -> dict[str | None, tuple[Verdict | None, str]]:
        seen = self.control.look(rescan=True).observation
        return {row.owner.name: (row.verdict, row.evidence) for row in seen.claims if row.owner is not None}

    def dead(self) -> Plan:
        return self.control.plan(Action.REQUEUE, Selection(box=Box.CUR, verdict=Verdict.DEAD))


@pytest.fixture(params=["127.0.0.1", "::1"])
def holder(request: pytest.FixtureRequest, server: Any, port: int) -> Iterator[Holder]:
    host = f"[{request.param}]" if ":" in request.param else request.param
    with open_control(f"redis://{host}:{port}#jobs/work", watch=False, settings=own_state()) as control:
        made = Holder(request.param, port, control)
        yield made
        made.die()


def test_a_process_is_known_by_its_connection(holder: Holder, server: Any) -> None:
    namesake = f"{sockets.gethostname()}-{os.getppid()}"  # a pid that runs, and has nothing to do with the server
    server.xreadgroup("work", namesake, {"jobs": ">"}, count=1)
    seen = holder.verdicts()
    assert seen[holder.name] == (Verdict.ALIVE, f"pid {holder.pid} of this host was seen connected, and is running")
    assert seen[namesake] == (Verdict.UNKNOWN, f"may be pid {os.getppid()} of this host, which is running")
    holder.die()
    assert server.ping() and server.ping()  # by its answers it has noticed
    rows = [item.row for item in holder.dead().items]
    assert [row.owner and row.owner.name for row in rows] == [holder.name] * 2
    assert {row.evidence for row in rows} == {f"pid {holder.pid} of this host was connected, and has exited"}


def test_a_dead_process_that_was_not_seen_is_unknown(holder: Holder) -> None:
    holder.die()
    verdict, evidence = holder.verdicts()[holder.name]
    assert verdict is Verdict.UNKNOWN and evidence.startswith(f"may be pid {holder.pid} of this host")
    assert not holder.dead().items


CLAIMS, WAITING = 1_300, 1_200
ID = re.compile(r"\(?[0-9]+-[0-9]+\Z")
NEVER = {"KEYS", "MONITOR", "SMEMBERS", "HGETALL", "HKEYS", "HVALS", "SORT", "FLUSHALL", "CONFIG", "XAUTOCLAIM"}
AT_ONCE, PAGE = 100, 1_000
"""Items that a command asks for: one by one, and where a whole list is gone through."""

Heard = Callable[[], list[list[str]]]


@pytest.fixture
def heard(socket: str) -> Iterator[Heard]:
    """The commands that the server got since the last call, those of scripts too, in words."""
    with Redis(unix_socket_path=socket) as client, Redis(unix_socket_path=socket) as other, other.monitor() as monitor:

        def commands() -> list[list[str]]:
            client.echo("the end")
            sent: list[list[str]] = []
            while "the end" not in (command := monitor.next_command()["command"]):
                sent.append(command.split(" "))
            return sent

        yield commands


@pytest.fixture
def busy(jobs: Any, url: str) -> Iterator[Control]:
    """The dashboard's control of a group with many claims of three consumers, and a second group that began in the middle."""
    pipe = jobs.pipeline(transaction=False)
    for number in range(CLAIMS + WAITING):
        pipe.xadd("jobs", {"data": b"%d" % number, "source": f"s{number % 3}"})
    ids = pipe.execute()
    for name, count in (("alive", 50), ("bob", 200), ("eve", CLAIMS - 250)):
        jobs.xreadgroup("work", name, {"jobs": ">"}, count=count)
    jobs.set(lease("alive"), "1")
    jobs.hset(key("consumers"), "alive", "far 1")
    jobs.xgroup_create("jobs", "late", ids[100])
    with open_control(url, settings=own_state()) as made:
        yield made


def asked_items(words: Sequence[str]) -> list[int]:
    """Numbers of items that a command asks for."""
    upper = [word.upper() for word in words]
    if upper[0] == "XPENDING":
        return [int(upper[5])] if len(upper) > 3 else []
    return [int(words[at + 1]) for at, word in enumerate(upper[:-1]) if word == "COUNT"] if upper[0] != "EVAL" else []


def check(sent: Sequence[Sequence[str]], most: int) -> None:
    """Checks that nothing holds the server up, and nothing asks for more than ``most`` items."""
    assert sent
    for words in sent:
        name = words[0].upper()
        assert name not in NEVER, words
        if name.startswith("EVAL") or name == "PTTL":
            assert sum(ID.match(word) is not None for word in words) <= AT_ONCE, words
            continue
        assert name != "XPENDING" or "IDLE" not in map(str.upper, words), words
        assert name != "XINFO" or "FULL" not in map(str.upper, words), words
        assert name not in ("XRANGE", "XREVRANGE") or asked_items(words) or words[2] == words[3], words
        assert all(count <= most for count in asked_items(words)), words


def test_looks_ask_for_little(busy: Control, heard: Heard, socket: str) -> None:
    heard()
    for _ in range(3):
        busy.look()
    busy.changes(0.0)
    busy.consumers()
    check(heard(), AT_ONCE)
    with open_control(f"unix://{socket}#jobs/late", watch=False, settings=own_state()) as late:  # the server knows no lag of it
        heard()
        assert late.look().observation.boxes[Box.NEW].count == CLAIMS + WAITING - 101
        check(heard(), PAGE)
    assert len(spooltop("status", f"unix://{socket}#j*", "--json").out.splitlines()) == 2
    sent = heard()
    check(sent, PAGE)
    assert "SCAN" in [words[0].upper() for words in sent]


def test_lists_ask_for_what_is_shown(busy: Control, heard: Heard) -> None:
    busy.look()
    for box in (Box.NEW, Box.CUR):
        for sort in (FIRST_SORT.get(box, Sort()), Sort("age", True), Sort("age", False)):
            heard()
            listing = busy.listing(ListQuery(box, sort=sort))
            for start in (0, len(listing) // 2, len(listing) - 50):
                rows = listing.window(start, start + 50)
                assert len(rows) == 50 and listing.find(rows[7].key) == start + 7
                busy.read(rows[0].key)
                busy.follow([row.id for row in rows], 0.0)
                busy.holders(rows[0].key)
            check(heard(), PAGE)
        for selection in (Selection(keys=(rows[0].key, rows[1].key)), Selection(box=box, ids=(rows[0].id,))):
            plan = busy.plan(Action.PURGE, selection, force=True)
            assert len(plan.items) + len(plan.refused) == len(selection.keys or selection.ids or ())
        check(heard(), AT_ONCE)  # a message that is named is not searched for
    for filter in ("src:s1", "holder:bob", "tries:>0"):
        for box in Box:
            busy.listing(ListQuery(box, filter=filter)).window(0, 50)
    listing = busy.listing(ListQuery(Box.CUR, selection=Selection(box=Box.CUR, source="s1")))
    assert len(listing) == sum(number % 3 == 1 for number in range(CLAIMS)) == len(list(listing.keys()))
    check(heard(), PAGE)


@pytest.mark.long
def test_operations_change_a_hundred_at_once_at_most(jobs: Any, busy: Control, heard: Heard) -> None:
    jobs.xgroup_destroy("jobs", "late")

    def done(action: Action, box: Box | None = None, **options: Json) -> str:
        result = busy.apply(busy.plan(action, Selection(box=box, everything=True), force=True, options=options))
        # On a machine that stands still for 50 ms a claim looks as if it had been taken meanwhile.
        assert result.count(Outcome.DONE) > 0 == result.count(Outcome.FAILED), result
        busy.look()
        check(heard(), PAGE)
        return result.operation

    for action, box in ((Action.REQUEUE, Box.CUR), (Action.HOLD, Box.CUR), (Action.HOLD, Box.NEW), (Action.PURGE, Box.NEW)):
        done(Action.UNDO, undoes=done(action, box))
    for action, box in (
        (Action.HOLD, Box.NEW), (Action.RELEASE, None), (Action.PURGE, Box.NEW), (Action.RESTORE, Box.TRASH),
        (Action.PURGE, Box.NEW), (Action.EMPTY, Box.TRASH),
    ):  # fmt: skip
        done(action, box)
    done(Action.INJECT, count=250, text="hello {n}", source="me")
    assert busy.operations() and not heard()


def test_connections_are_asked_for_again_where_that_was_not_answered(
    jobs: Any, socket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without them a process that has the connection of another that exited would be taken for dead."""
    jobs.xgroup_createconsumer("jobs", "work", "plain")
    server = StreamServer(endpoint(f"unix://{socket}", Login()), socket)
    looker, ask = Looker(server, StreamNames("jobs", "work")), server.ask

    def silent(*commands: Sequence[str | bytes | int]) -> list[Any]:
        if commands[0][0] == "CLIENT":
            raise Unavailable("no answer")
        return ask(*commands)

    with monkeypatch.context() as patched, pytest.raises(Unavailable):
        patched.setattr(server, "ask", silent)
        looker.look()
    assert looker.look().connected is not None
    server.close()


def test_lists_of_a_stream_that_is_gone_are_those_that_were_seen_last(jobs: Any, control: Control) -> None:
    add(jobs, 3)
    see(control)
    queries = ListQuery(Box.NEW), ListQuery(Box.NEW, filter="src:s1")
    before = [control.listing(query).window(0, 9) for query in queries]
    jobs.delete("jobs")
    watch = see(control).watch
    assert watch is not None and "no such stream any more" in watch.reason
    assert [control.listing(query).window(0, 9) for query in queries] == before
    assert list(map(len, before)) == [3, 1]
