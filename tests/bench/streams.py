"""A stream with many entries: what a look, a list and an operation cost, and what others on the server notice of it.

    python -m tests.bench.streams [entries, default 1000000] [pending, default 100000] [--quick] [--dir PATH]

Floors of the same run: the commands of a look in one pipeline, a bare Textual app, PING of a second client while nothing is
asked, and bare commands of redis-py.
"""

from __future__ import annotations

import compileall
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from redis import Redis

import spooltop
from spooltop.backends.redis.client import RedisClient, StreamAddress, endpoint
from spooltop.backends.redis.stream_names import StreamNames
from spooltop.backends.redis.streams.reader import StreamReader
from spooltop.backends.redis.streams.server import PidJudge
from spooltop.backends.surroundings import LocalClient
from spooltop.control import Control, open_control
from spooltop.model.backend import FIRST_SORT, ListQuery, OpenSettings, Sort
from spooltop.model.plan import Outcome, Selection
from spooltop.model.vocabulary import Action, Box, Verdict
from spooltop.queues import open_queue
from tests.e2e.terminal import SPOOLTOP

from .directories import arguments
from .idle import FLOOR, first_truth
from .stream_server import CONSUMERS, NAMES, Pinger, apart, filled_server, pinging

Command = Sequence[str | bytes | int]
WINDOW = 50
OPERATED = 1_000
LATE = StreamNames(NAMES.stream, "late")
NO_OP = "PING all the time, by one more"
BUSY = """
import time
end = time.monotonic() + 2.0
while time.monotonic() < end:
    [str(number) for number in range(1000)]
"""


class Around:
    """Answers about processes: none runs."""

    def pids(self, claims: Any, root: int) -> list[tuple[Verdict, str]]:
        return [(Verdict.DEAD, "exited") for _ in claims]

    def clients(self, pids: Any, connections: Any) -> list[LocalClient]:
        return []


def reader_of(socket: str, names: StreamNames = NAMES) -> StreamReader:
    address = StreamAddress.parse(f"unix://{socket}#{names.stream}/{names.group}")
    judge = PidJudge(Around(), "here")  # type: ignore[arg-type]
    return StreamReader(endpoint(address.url), names, address.shown, judge, OpenSettings())


@contextmanager
def recorded() -> Iterator[list[Sequence[Command]]]:
    """The exchanges that clients make meanwhile."""
    found: list[Sequence[Command]] = []
    ask = RedisClient.ask

    def asked(self: RedisClient, *commands: Command) -> list[Any]:
        found.append(commands)
        return ask(self, *commands)

    RedisClient.ask = asked  # type: ignore[method-assign]
    try:
        yield found
    finally:
        RedisClient.ask = ask  # type: ignore[method-assign]


def seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def bytes_of(client: Any, work: Callable[[], object]) -> int:
    """Bytes that the server sends meanwhile."""

    def sent() -> int:
        return int(client.info("stats")["total_net_output_bytes"])

    one, two = sent(), sent()
    work()
    return sent() - two - (two - one)


def look(socket: str, turns: int) -> None:
    reader = reader_of(socket)
    reader.see()
    with recorded() as exchanges:
        reader.see()
    commands = [command for exchange in exchanges for command in exchange]
    bare = RedisClient(endpoint(f"unix://{socket}#jobs"))

    def pipeline() -> None:
        bare.allowance.begin(9.0, 1 << 28)
        bare.ask(*commands)

    pipeline()
    pairs = [(seconds(pipeline), seconds(reader.see)) for _ in range(turns)]
    floor, ours = (1000 * statistics.median(column) for column in zip(*pairs, strict=True))
    ratio = statistics.median(mine / theirs for theirs, mine in pairs)
    with Redis(unix_socket_path=socket) as client:
        sizes = [bytes_of(client, reader.see) for _ in range(5)]
    what = f"a look, {CONSUMERS} consumers: its {len(commands)} commands in one pipeline"
    sent = f"{statistics.median(sizes):,.0f} B in {len(exchanges)} exchanges"
    print(f"| {what} | {floor:.2f} ms | {ours:.2f} ms | {ratio:.2f} | {sent} |", flush=True)
    reader.close()


def first_picture(socket: str, turns: int) -> None:
    ours = (*SPOOLTOP, f"unix://{socket}#{NAMES.stream}/{NAMES.group}")
    bare = (sys.executable, "-c", FLOOR)
    pairs = [(first_truth(bare, "READY"), first_truth(ours, "live · as of")) for _ in range(turns + 1)][1:]
    floor, mine = (1000 * statistics.median(column) for column in zip(*pairs, strict=True))
    ratio = statistics.median(one / other for other, one in pairs)
    print(f"| first picture: a bare Textual app | {floor:.0f} ms | {mine:.0f} ms | {ratio:.2f} | |", flush=True)


def jumps(socket: str, turns: int) -> None:
    """Prints how long a list takes that is opened at its middle, and at its end."""
    reader = reader_of(socket)
    reader.see()
    for query in (ListQuery(Box.NEW), ListQuery(Box.NEW, sort=Sort("age", False)), ListQuery(Box.CUR, sort=FIRST_SORT["cur"])):
        for name, part in (("middle", 0.5), ("end", 1.0)):
            found = sorted(1000 * seconds(partial(jumped, reader, query, part)) for _ in range(turns))
            order = "" if query.sort.descending else ", the other way round"
            print(f"| {query.box}{order}: the {name} | {statistics.median(found):.1f} ms | {found[-1]:.1f} ms |", flush=True)
    reader.close()


def jumped(reader: StreamReader, query: ListQuery, part: float) -> None:
    found = reader.listing(query)
    start = int((len(found) - WINDOW) * part)
    if len(found.window(start, start + WINDOW)) != WINDOW:
        raise SystemExit(f"{query.box}: not {WINDOW} rows at {start}")


class Phases:
    """Spans of time in which one thing was done again and again."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._client.config_set("slowlog-log-slower-than", 100)
        self.spans: dict[str, list[tuple[float, float]]] = {}
        self.longest: dict[str, int] = {}

    def do(self, name: str, work: Callable[[], object], lasting: float = 0.0) -> None:
        """Does it once, and again until ``lasting`` seconds are over."""
        self._client.slowlog_reset()
        began = time.monotonic()
        work()
        while time.monotonic() < began + lasting:
            work()
        self.spans.setdefault(name, []).append((began, time.monotonic()))
        took = [one["duration"] for one in self._client.slowlog_get(128)]
        self.longest[name] = max(self.longest.get(name, 0), *took, 0)

    def told(self, pinger: Pinger) -> None:
        times = {
            name: sorted(one for began, ended in spans for one in pinger.between(began, ended))
            for name, spans in self.spans.items()
        }
        rest = at(times[NO_OP], 0.99)
        for name, found in times.items():
            p99 = at(found, 0.99)
            cells = f"{at(found, 0.5):.2f} | {p99:.2f} | {p99 - rest:+.2f} | {found[-1]:.2f} | {len(found):,}"
            print(f"| {name} | {cells} | {self.longest[name] / 1000:.2f} |")


def at(times: list[float], part: float) -> float:
    return times[min(len(times) - 1, int(part * len(times)))] if times else 0.0


def noticed(socket: str, lasting: float, rounds: int) -> None:
    """Prints how long another client's PING takes while this one looks, lists and operates."""
    with Redis(unix_socket_path=socket) as client, tempfile.TemporaryDirectory(prefix="spooltop-bench-") as state, \
            pinging(socket) as pinger, apart(client.info("server")["process_id"], pinger.pid):  # fmt: skip
        phases = Phases(client)
        words = {"XDG_STATE_HOME": state, "HOME": state}
        with open_control(f"unix://{socket}#{NAMES.stream}/{NAMES.group}", settings=words) as control:
            phases.do("nothing", lambda: time.sleep(lasting))
            phases.do("a Python that asks nothing", lambda: os.system(f"{sys.executable} -c '{BUSY}'"))
            phases.do(NO_OP, client.ping, lasting)
            phases.do("looks", control.look, lasting)
            reader = reader_of(socket, LATE)
            phases.do("looks that count what the server does not", reader.see, lasting)
            reader.close()
            for box in (Box.NEW, Box.CUR):
                query = ListQuery(box, sort=FIRST_SORT.get(box, Sort()))
                for name, part in (("middle", 0.5), ("end", 1.0)):
                    phases.do(f"{box}: the {name}", partial(shown, control, query, part), lasting / 2)
                phases.do(f"{box}: a filter", partial(control.listing, ListQuery(box, filter="src:source-1")))
            for _ in range(rounds):
                for action in (Action.REQUEUE, Action.PURGE, Action.HOLD):
                    operated(control, phases, action)
    columns = "p50 | p99 | above that of no-ops | most | asked | longest command"
    print(f"| PING of another client, on the core of the server, ms, while | {columns} |")
    print("|---|---|---|---|---|---|---|")
    phases.told(pinger)


def shown(control: Control, query: ListQuery, part: float) -> None:
    found = control.listing(query)
    start = int((len(found) - WINDOW) * part)
    control.read(found.window(start, start + WINDOW)[0].key)


def operated(control: Control, phases: Phases, action: Action) -> None:
    """Changes many claims and takes it back."""
    control.look()
    rows = control.listing(ListQuery(Box.CUR, sort=FIRST_SORT["cur"])).window(0, OPERATED)
    selection = Selection(keys=tuple(row.key for row in rows))
    undone: list[str] = []

    def change() -> None:
        result = control.apply(control.plan(action, selection, force=True))
        if not result.count(Outcome.DONE) or result.count(Outcome.FAILED):
            raise SystemExit(f"{action}: {result}")
        undone.append(result.operation)

    phases.do(f"{action} of {OPERATED:,}", change)
    undo = {"undoes": undone[0]}
    everything = Selection(everything=True)
    phases.do("undo of them", lambda: control.apply(control.plan(Action.UNDO, everything, force=True, options=undo)))


def queue(socket: str, count: int) -> None:
    """Prints put, claim and ack beside the bare commands, one by one, in turns."""
    with Redis(unix_socket_path=socket) as client, open_queue(f"unix://{socket}#own/work", create=True) as own:
        client.xgroup_create("bare", "work", "0", mkstream=True)
        data = b"x" * 200

        def take() -> None:
            for _ in range(count):
                claim = own.claim()
                assert claim is not None
                claim.ack()

        def read() -> None:
            for _ in range(count):
                ((_, ((id, _),)),) = client.xreadgroup("work", "me", {"bare": ">"}, count=1)
                client.xack("bare", "work", id)

        works: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
            "put: bare XADD": (lambda: [client.xadd("bare", {"data": data}) for _ in range(count)],
                               lambda: [own.put(data) for _ in range(count)]),
            "claim and ack: bare XREADGROUP, XACK": (read, take),
        }  # fmt: skip
        pairs: dict[str, list[tuple[float, float]]] = {}
        for _ in range(5):
            for name, (bare, ours) in works.items():
                pairs.setdefault(name, []).append((seconds(bare) / count, seconds(ours) / count))
        for name, found in pairs.items():
            floor, mine = (1e6 * statistics.median(column) for column in zip(*found, strict=True))
            ratio = statistics.median(one / other for other, one in found)
            print(f"| {name} | {floor:.0f} µs | {mine:.0f} µs | {ratio:.2f} | |", flush=True)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("entries", nargs="?", type=int, default=1_000_000)
    parser.add_argument("pending", nargs="?", type=int, default=100_000)
    parser.add_argument("--quick", action="store_true", help="a small stream, some seconds")
    args = parser.parse_args()
    compileall.compile_dir(str(Path(spooltop.__file__).parent), quiet=1)  # as what is installed is: a start does not compile
    entries, pending = (50_000, 10_000) if args.quick else (args.entries, args.pending)
    turns, lasting = (20, 0.5) if args.quick else (200, 3.0)
    with filled_server(args.dir, entries, pending) as socket:
        print(f"{entries:,} entries, {pending:,} of them pending with {CONSUMERS} consumers")
        print("| | floor | spooltop | ratio | |\n|---|---|---|---|---|")
        look(socket, turns)
        first_picture(socket, 3 if args.quick else 7)
        queue(socket, 100 if args.quick else 500)
        print("\n| a list opens at | median | most |\n|---|---|---|")
        jumps(socket, 5 if args.quick else 20)
        print()
        noticed(socket, lasting, 1 if args.quick else 4)


if __name__ == "__main__":
    main()
