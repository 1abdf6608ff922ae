"""The crash matrix of streams: no message is lost or doubled, whatever is cut off, and the same again or an undo finishes."""

from __future__ import annotations

import os
import socket as sockets
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from itertools import cycle
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from _pytest.mark.structures import ParameterSet

from spooltop.errors import PutUnknown, SpooltopError
from spooltop.model.plan import Outcome, Selection
from spooltop.model.vocabulary import Action, Box
from spooltop.queues import open_queue
from tests.matrix.cutting_proxy import Cut, CuttingProxy
from tests.matrix.stream_queues import OPERATIONS, QueueSweep
from tests.matrix.streams import CASES, MANY, Journal, Sweep, lua_sites, prepared_proxy, sites_of, state_of
from tests.stream_builders import StreamWorld
from tests.stream_servers import EACH, KINDS, running

PLAIN = {"requeue", "put with a key", "recover"}
"""Cases of a plain run."""
SERVERS = dict(zip([*CASES, *OPERATIONS], cycle(KINDS), strict=False))
"""The kind of server on which a case runs."""
Place = tuple[str, CuttingProxy, Path]
"""The socket of a server, the proxy before it, and a folder."""


def each(names: Mapping[str, object]) -> pytest.MarkDecorator:
    def marked(name: str) -> ParameterSet:
        return pytest.param(SERVERS[name], name, marks=() if name in PLAIN else pytest.mark.long)

    return pytest.mark.parametrize(("server", "name"), [marked(name) for name in names], indirect=["server"], ids=names)


@pytest.fixture(scope="module")
def server(request: pytest.FixtureRequest) -> Iterator[str]:
    with TemporaryDirectory(prefix="spooltop-streams-") as folder, running(request.param, Path(folder)) as socket:
        yield socket


@pytest.fixture
def place(server: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    monkeypatch.setattr(time, "sleep", lambda seconds: None)  # between two tries
    with prepared_proxy(server) as (proxy, folder):
        yield server, proxy, folder


ON_EACH_SERVER = pytest.mark.parametrize("server", KINDS, indirect=True)


def changing(commands: Sequence[Sequence[bytes]]) -> list[int]:
    """Numbers of the commands that change something. Who is killed at another one leaves what he leaves after them."""
    return [number for number, command in enumerate(commands, start=1) if sites_of(command)]


@each(CASES)
def test_a_connection_that_comes_back_is_no_trouble(name: str, place: Place) -> None:
    sweep = Sweep(name, *place)
    for at, command in enumerate(sweep.commands, start=1):
        for cut in (Cut.BEFORE, Cut.MIDDLE, Cut.AFTER) if sites_of(command) else (Cut.AFTER,):
            sweep.cut(at, cut)


@each(CASES)
def test_the_same_again_finishes_what_a_server_refused(name: str, place: Place) -> None:
    sweep = Sweep(name, *place)
    for at in range(1, len(sweep.commands) + 1):
        sweep.cut(at, Cut.REFUSED)


@each(CASES)
def test_an_undo_finds_out_what_a_server_did_that_stays_away(name: str, place: Place) -> None:
    sweep = Sweep(name, *place)
    for at, command in enumerate(sweep.commands, start=1):
        for cut in (Cut.BEFORE, Cut.AFTER) if sites_of(command) else (Cut.BEFORE,):
            sweep.cut(at, cut, away=True)


@each(CASES)
def test_a_killed_process_leaves_what_can_be_finished_or_undone(name: str, place: Place) -> None:
    sweep = Sweep(name, *place)
    for at in changing(sweep.commands):
        for cut in (Cut.BEFORE, Cut.AFTER):
            sweep.cut(at, cut, kill=True)


@each(CASES)
def test_a_journal_that_ends_at_any_line_is_finished_or_undone(name: str, place: Place) -> None:
    sweep = Sweep(name, *place)
    for at in range(1, len(sweep.steps) + 1):
        for fault in Journal.FAULTS:
            if fault != "torn" or sweep.steps[at - 1] == "write":
                sweep.break_journal(at, fault)


@ON_EACH_SERVER
def test_many_messages_take_two_batches(place: Place) -> None:
    scripts = [command for command in Sweep("requeue", *place).commands if any("hand" in site for site in sites_of(command))]
    assert [command.count(b"hand") for command in scripts] == [25, MANY - 25]


@each(CASES)
def test_a_plan_that_is_cut_off_changes_nothing(name: str, place: Place) -> None:
    socket, proxy, folder = place
    case, at, was_cut = CASES[name], 0, True
    with StreamWorld(folder, socket, proxy.path) as world:
        undoes = case.prepare(world)
        before = state_of(world)
        while was_cut:
            at += 1
            for cut in Cut:
                with world.control() as control:
                    proxy.arm(at, cut)
                    try:
                        case.plan(control, world, undoes)
                    except SpooltopError as error:
                        assert "\n" not in str(error)
                    was_cut = proxy.disarm()
        assert at > 3 and state_of(world) == before


@each(OPERATIONS)
def test_a_word_of_the_queue_finishes_when_it_is_said_again(name: str, place: Place) -> None:
    sweep = QueueSweep(name, *place)
    for at, command in enumerate(sweep.commands, start=1):
        for cut in (*Cut,) if command[0].startswith(b"EVAL") else (Cut.BEFORE, Cut.AFTER) if sites_of(command) else (Cut.AFTER,):
            sweep.cut(at, cut)


@each(OPERATIONS)
def test_what_a_killed_consumer_held_is_recovered(name: str, place: Place) -> None:
    sweep = QueueSweep(name, *place)
    for at in changing(sweep.commands):
        for cut in (Cut.BEFORE, Cut.AFTER):
            sweep.kill(at, cut)


@pytest.mark.parametrize("kind", EACH)
def test_each_script_that_changes_something_is_cut_and_refused(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    hit, every = lua_sites(kind)
    assert hit == every and len(hit) > 20


@pytest.mark.parametrize("cut", [Cut.BEFORE, Cut.MIDDLE, Cut.AFTER])
@ON_EACH_SERVER
def test_a_put_without_a_key_says_that_it_is_unknown(cut: Cut, place: Place) -> None:
    socket, proxy, folder = place
    with StreamWorld(folder, socket, proxy.path) as world, closing(open_queue(world.target)) as queue:
        proxy.arm(1, cut)
        try:
            raise FileNotFoundError("what a caller handles")
        except FileNotFoundError:  # says nothing of the connection
            with pytest.raises(PutUnknown, match="may or may not have arrived"):
                queue.put(b"1")
        assert proxy.disarm() and world.census() == ({"1": ["new"]} if cut is Cut.AFTER else {})


@ON_EACH_SERVER
def test_what_an_undo_found_undone_is_never_done_later(place: Place) -> None:
    socket, proxy, folder = place
    commands = Sweep("purge claims", *place).commands
    at = next(number for number, command in enumerate(commands, start=1) if sites_of(command))
    with StreamWorld(folder / "late", socket, proxy.path) as world, world.control() as control, Journal(world):
        CASES["purge claims"].prepare(world)
        before = state_of(world)
        plan = control.plan(Action.PURGE, Selection(box=Box.CUR, everything=True))
        proxy.arm(at, Cut.BEFORE, away=True)
        result = control.apply(plan)
        assert proxy.disarm() and b"aside" in proxy.withheld
        assert result.count(Outcome.FAILED) == 25 and "unknown" in result.items[0].reason
        (record,) = control.operations()
        assert record.open and "sent and not answered" in record.words
        undo = control.plan(Action.UNDO, Selection(everything=True), options={"undoes": plan.operation})
        assert not undo.items
        control.apply(undo)
        (record,) = control.operations()
        assert not record.open
        with sockets.socket(sockets.AF_UNIX) as late:  # a network may hand the command over only now
            late.connect(socket)
            late.sendall(proxy.withheld)
            assert b"settled" in late.recv(100)
        assert state_of(world) == before


@ON_EACH_SERVER
def test_no_journal_of_these_tests_is_left(place: Place) -> None:
    socket, proxy, folder = place
    with StreamWorld(folder, socket, proxy.path) as world:
        CASES["undo a hold"].prepare(world)
        logs = [path for path in (Path("/var/lib/spooltop"), world.state) if path.is_dir() and os.access(path, os.R_OK)]
        assert any(path.name.startswith(world.group) for root in logs for path in root.rglob("*"))
    assert not any(path.name.startswith(world.group) for root in logs if root.is_dir() for path in root.glob("*"))
