"""A look at whole spools: real ones, real consumers, containers, hostile names, and what goes wrong with a directory."""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import tempfile
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from spooltop.control import Control
from spooltop.engine import Spool
from spooltop.errors import Refused, SpooltopError, Unreadable
from spooltop.model.backend import ListQuery
from spooltop.model.plan import Selection
from spooltop.model.vocabulary import Action, Box, Verdict
from tests.builders import LIVING, SpoolWorld
from tests.clock import Clock
from tests.needs import needs

from .conftest import Opened
from .table import FakeProcesses, see, see_until

HOSTILE = [
    b"[red]x[bold]", b"a\x1b[31mb", b"two\nlines", b"\xff\xfe", b"T02:41:09.json", b"n" * 255, b",n=1", b":2,P1", b"~", b" ",
]  # fmt: skip
CONTAINER = ["unshare", "--pid", "--fork", "--mount-proc"]
NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
needs_root = needs("root")


@contextmanager
def consumer(spool: Path, *inside: str) -> Iterator[subprocess.Popen[str]]:
    (spool / "new" / "1795220920443125.1.vm").write_text("m")
    with subprocess.Popen(
        [*inside, sys.executable, "-c", LIVING, str(spool), "1"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        try:
            assert process.stdout.readline()
            yield process
        finally:
            process.kill()


# Whole spools


def test_hostile_names_are_all_shown_and_readable_and_dot_files_are_not(spool: Path, opened: Opened) -> None:
    for name in (*HOSTILE, b".hidden"):
        Path(os.fsdecode(os.fsencode(spool / "new") + b"/" + name)).write_bytes(b"x" + name)
    control = opened(spool)
    observation = control.look().observation
    assert observation.boxes[Box.NEW].count == len(HOSTILE)
    assert observation.boxes[Box.NEW].bytes == sum(1 + len(name) for name in HOSTILE)
    rows = control.listing(ListQuery(Box.NEW)).window(0, 100)
    assert sorted(os.fsencode(row.name) for row in rows) == sorted(HOSTILE)
    assert [control.read(row.key, 300).data for row in rows] == [b"x" + os.fsencode(row.name) for row in rows]
    assert [row.note for row in observation.irregular] == ["its name is too long to be claimed"]


@pytest.mark.parametrize(
    "key",
    [
        ("new", "gone"), ("new", "../../etc/passwd"), ("new", ".."), ("etc", "passwd"), ("trash", "../x"), ("new", "fifo"),
        ("new", "link"), 5,
    ],
)  # fmt: skip
def test_what_cannot_be_read_says_so_and_reading_is_bounded(spool: Path, opened: Opened, key: object) -> None:
    os.mkfifo(spool / "new" / "fifo")
    (spool / "new" / "link").symlink_to("/etc/passwd")
    (spool / "new" / "big").write_bytes(b"0123456789")
    control = opened(spool)
    control.look()
    payload = control.read(("new", "big"), 4)
    assert (payload.data, payload.size, payload.truncated) == (b"0123", 10, True) and dict(payload.facts)["enqueued"]
    with pytest.raises(Unreadable):
        control.read(key, 100)  # type: ignore[arg-type]


# Consumers, containers, other users


@pytest.mark.parametrize("inside", [[], pytest.param([*CONTAINER, "--kill-child"], marks=needs_root)], ids=["here", "container"])
def test_a_killed_consumer_is_dead_within_two_looks(spool: Path, opened: Opened, inside: list[str]) -> None:
    control = opened(spool)
    with consumer(spool, *inside) as process:
        for _ in range(3):
            observation = see(control)
            assert [(row.verdict, row.evidence) for row in observation.claims] == [(Verdict.ALIVE, "running")]
        assert observation.consumers == 1
        process.send_signal(signal.SIGKILL)
        process.wait()
        if inside:
            see_until(control, lambda observation: observation.counts.dead == 1)
        looks = [[row.verdict for row in see(control).claims] for _ in range(2)]
    assert looks[-1] == [Verdict.DEAD]


@needs_root
def test_of_another_users_living_consumers_none_is_dead() -> None:
    with tempfile.TemporaryDirectory(prefix="spooltop-open-") as folder:  # pytest's own folders are closed to others
        spool = Path(folder)
        spool.chmod(0o755)
        for box in ("tmp", "new", "cur"):
            (spool / box).mkdir(mode=0o755)
        with consumer(spool) as process:
            (spool / ".spooltop" / "consumers").chmod(0o700)
            (spool / "cur" / f"foreign:2,P{process.pid}").touch()  # kill(2) is refused there, and says that it is there
            words = [*NOBODY, sys.executable, "-m", "spooltop", "ls", folder, "--box", "cur", "--json"]
            claims = map(json.loads, subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines())
    assert {(claim["id"] == "foreign", claim["verdict"], claim["evidence"]) for claim in claims} == {
        (False, "unknown", "its presence file cannot be read"), (True, "alive", "running"),
    }  # fmt: skip


@pytest.mark.parametrize("gone", [None, "tmp", "cur", "new"])
@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("cursors", [True, False])
def test_what_a_look_allows_is_what_an_operation_does(
    memory: Path, opened: Opened, gone: str | None, read_only: bool, cursors: bool
) -> None:
    with SpoolWorld(memory) as world:
        if cursors:
            world.cursors()
        control = opened(world.path, read_only=read_only, settings=world.settings)
        if gone is not None:
            (world.path / gone).rmdir()
        observation = control.look().observation
        allowed = observation.capabilities
        words = {None: "read-write", "tmp": "read-write in part", "cur": "read-write in part", "new": "read-only"}[gone]
        assert observation.who.words == ("READ-ONLY" if read_only else words)
        if gone != "new":  # without it no operator opens
            assert (allowed.why_not(Action.SET_CURSOR) is None) is (cursors and not read_only)
            for action in Action:
                refused = refusal(control, action)
                assert (allowed.why_not(action) or "") in refused and (allowed.why_not(action) is None) is (refused == ""), action


def refusal(control: Control, action: Action) -> str:
    """Why an action cannot be planned at all; "" where it can, or only its words are not enough."""
    try:
        control.plan(action, Selection(everything=True))
    except Refused as refused:
        return str(refused)
    except (SpooltopError, KeyError):
        return ""
    return ""


# What goes wrong with a directory


def test_with_a_replaced_box_all_are_listed_at_once(spool: Path, opened: Opened) -> None:
    control = opened(spool, least=1_000.0)
    assert control.look().observation.boxes[Box.NEW].count == 0
    (spool / "new").rename(spool / "old")
    (spool / "new").mkdir()
    (spool / "new" / "m").touch()
    (spool / "cur" / "m2:2,P4242").touch()
    boxes = control.look().observation.boxes
    assert (boxes[Box.NEW].count, boxes[Box.CUR].count) == (1, 1)


def test_events_come_from_a_box_that_was_replaced(spool: Path, opened: Opened) -> None:
    control = opened(spool, watch=True)
    see_until(control, lambda observation: observation.flow.exact and observation.flow.measured)
    (spool / "new").rmdir()
    (spool / "new").mkdir()
    see_until(control, lambda observation: not observation.flow.exact)
    see_until(control, lambda observation: observation.flow.exact)
    (spool / "new" / "m").touch()
    assert see_until(control, lambda observation: observation.flow.arrived == 1).flow.exact


def test_a_box_that_becomes_a_link_leads_nowhere(spool: Path, opened: Opened, tmp_path: Path) -> None:
    control = opened(spool)
    control.look()
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "m").touch()
    (spool / "cur").rmdir()
    (spool / "cur").symlink_to(tmp_path / "precious")
    state = control.look().observation.boxes[Box.CUR]
    assert state.count is None and state.error


def test_a_box_or_a_spool_that_is_gone_is_a_state_and_comes_back(spool: Path, opened: Opened) -> None:
    control = opened(spool)
    (spool / "tmp").rmdir()
    observation = control.look().observation
    state = observation.boxes[Box.TMP]
    assert (state.count, state.error, observation.complete) == (None, "tmp is missing", False)
    (spool / "tmp").mkdir()
    assert control.look().observation.complete
    spool.rename(spool.parent / "elsewhere")
    observation = control.look().observation
    assert not observation.complete and all("is missing" in state.error for state in observation.boxes.values())
    assert not observation.capabilities.change
    (spool.parent / "elsewhere").rename(spool)
    assert control.look().observation.complete


# Changes


@pytest.fixture
def still(spool: Path) -> Path:
    """A spool with a staging directory in which nothing has changed for a long time."""
    (spool / ".spooltop" / "stage" / ("a" * 10)).mkdir(parents=True)
    for folder in (spool / ".spooltop" / "stage" / ("a" * 10), *(spool / box for box in ("tmp", "new", "cur"))):
        os.utime(folder, (1_000_000_000, 1_000_000_000))
    return spool


def test_a_wait_ends_by_a_wake_or_where_a_directory_changes_that_sends_no_events(still: Path, opened: Opened) -> None:
    control = opened(still)
    first, again = (control.look().observation.generation for _ in range(2))  # after these all directories are known
    assert first == again and not control.changes(2.0)
    control.wake()
    assert control.changes(60) and not control.changes(0.01)
    staged = still / ".spooltop" / "stage" / ("a" * 10)
    for folder in (still / "tmp", staged):
        (folder / "m").touch()
        assert control.changes(60)
        control.look()
    staged.rename(still / ".spooltop" / "stage" / ("b" * 10))
    assert control.changes(60)
    (still / "new" / "m").touch()
    see_until(control, lambda observation: observation.generation > first)


def test_a_change_that_came_too_early_makes_changes_return_when_it_is_due(still: Path, opened: Opened) -> None:
    control = opened(still, least=0.3)
    control.look()
    (still / "new" / "m").touch()
    assert control.look().observation.boxes[Box.NEW].count == 0
    assert control.changes(60)
    assert control.look().observation.boxes[Box.NEW].count == 1


def test_of_a_storm_every_message_is_counted_once(spool: Path, opened: Opened) -> None:
    control = opened(spool, watch=True)
    see_until(control, lambda observation: observation.flow.exact and observation.flow.measured)
    arrived = claimed = done = 0
    exact = True
    with Spool(str(spool), durable=False) as busy:
        for turn in range(8):
            busy.put_many([b"x"] * 200, source="storm")
            busy.ack_many(list(busy.claims()))
            (spool / "new" / f".hidden{turn}").touch()
            for number in range(25):  # of another program's consumer
                path = spool / "new" / f"m{turn}-{number}\udcff"
                path.touch()
                path.rename(spool / "cur" / f"{path.name}:2,P1").unlink()
            for _ in range(1 if turn < 7 else 300):
                flow = control.look().observation.flow
                arrived, claimed, done = arrived + flow.arrived, claimed + flow.claimed, done + flow.done
                exact = exact and flow.exact and not flow.requeued
                if done == 1_800:
                    break
                control.changes(0.2)
    assert (arrived, claimed, done, exact) == (1_800, 1_800, 1_800, True)


def test_the_evidence_on_files_in_tmp_is_read_again_just_before_a_purge(memory: Path, opened: Opened) -> None:
    table = FakeProcesses()
    with SpoolWorld(memory) as world:
        control = opened(world.path, processes=table, settings=world.settings)
        written, left = (world.put(f"1795220920443125.42{number}.here", box=Box.TMP) for number in range(2))
        plan = control.plan(Action.PURGE, Selection(box=Box.TMP, everything=True))
        status = os.stat(world.path / "tmp" / written)
        table.open_files[status.st_dev, status.st_ino] = (420,)
        table.boot += 10
        result = control.apply(plan)
        assert {item.name: item.outcome.value for item in result.items} == {written: "skipped", left: "done"}


@pytest.mark.long
@pytest.mark.early
def test_claims_that_are_gone_take_no_memory(spool: Path, opened: Opened, clock: Clock) -> None:
    """A dashboard runs for weeks."""
    control, cur = opened(spool, clock=clock), str(spool / "cur")  # a Path would keep each name, sys.intern
    kept = []
    tracemalloc.start()
    try:
        for turn in range(20):
            for name in os.listdir(cur):
                os.unlink(f"{cur}/{name}")
            for number in range(300):
                os.mknod(f"{cur}/turn{turn:03d}number{number:03d}:2,P4242")
            assert control.look().observation.boxes[Box.CUR].count == 300
            clock.advance(3_600)  # what was seen is kept for a while
            gc.collect()
            kept.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    # A look may keep the claims that left since the one before; which looks do varies. The names alone of ten looks take 200 kB.
    assert min(kept[15:]) - max(kept[2:6]) < 100_000, kept
