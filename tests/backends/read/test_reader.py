"""A look at whole spools: real ones, real consumers, containers, hostile names, and what goes wrong with a directory."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import tempfile
import threading
import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from spooltop.backends.directory.cursors.operator import CursorOperator
from spooltop.backends.directory.events.inotify import Events
from spooltop.backends.directory.locks.operator import LockOperator
from spooltop.backends.directory.operator.chain import OperatorChain
from spooltop.backends.directory.operator.operator import DirectoryOperator
from spooltop.backends.directory.options import OpenOptions
from spooltop.backends.directory.reader import DirectoryReader
from spooltop.backends.directory.rescan import FreshLook
from spooltop.backends.directory.world import World
from spooltop.backends.journal.log_files import LogFiles
from spooltop.backends.journal.log_store import SpoolPathLogs
from spooltop.engine import Spool
from spooltop.errors import Unreadable
from spooltop.model.look.observation import Observation
from spooltop.model.protocols import ListQuery
from spooltop.model.vocabulary import Action, Box, Verdict
from spooltop.observe import Observer
from tests.needs import needs

from .table import FakeProcesses, see_until
from .test_scan import HOSTILE

Opened = Callable[..., DirectoryReader]

CONSUMER = """
import os, sys
from spooltop.backends.directory.options import OpenOptions
from spooltop.engine import Spool
spool = Spool(sys.argv[1])
claim = spool.claim(timeout=30)
print(claim.id, flush=True)
sys.stdin.read()
"""
CONTAINER = ["unshare", "--pid", "--fork", "--mount-proc"]
needs_root = needs("root")


@contextmanager
def consumer(spool: Path, *inside: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [*inside, sys.executable, "-c", CONSUMER, str(spool)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        try:
            assert process.stdout.readline()
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize(("name", "tail"), [("seed_maildirqueue", ":2,P4242"), ("seed_atomicfilequeue", ":P4242")])
def test_real_spools(real_spools: Path, opened: Opened, name: str, tail: str) -> None:
    table = FakeProcesses()
    observation = opened(real_spools / name, processes=table).see()
    assert (observation.boxes[Box.NEW].count, observation.boxes[Box.CUR].count, observation.complete) == (3, 1, True)
    (claim,) = observation.claims
    assert claim.name.endswith(tail) and claim.owner is not None and claim.owner.pid == 4242
    assert claim.verdict is Verdict.DEAD and observation.counts.dead == 1


def test_a_file_of_another_host_is_unknown(real_spools: Path, opened: Opened) -> None:
    observation = opened(real_spools / "seed_maildirqueue").see()
    (row,) = observation.tmp
    assert (row.verdict, row.evidence) == (Verdict.UNKNOWN, "written on host h, ask there")


def test_mail_is_not_judged_and_nothing_may_be_changed(real_spools: Path, opened: Opened) -> None:
    reader = opened(real_spools / "maildir_stdlib")
    observation = reader.see()
    assert (observation.layout, observation.claims, observation.boxes[Box.CUR].count) == ("mail", (), 1)
    assert not observation.capabilities.change and "mail folder" in (observation.capabilities.why_not(Action.PURGE) or "")
    (row,) = reader.listing(ListQuery(Box.CUR)).window(0, 9)
    assert (row.id, row.verdict) == ("1795220919.M781490P9155Q1.vm", None)
    assert reader.read(row.key, 100).size == 18


def test_a_mail_folder_taken_for_a_spool(real_spools: Path, opened: Opened) -> None:
    observation = opened(real_spools / "maildir_stdlib", as_spool=True).see()
    assert (observation.layout, len(observation.claims)) == ("spool", 1)


def test_a_killed_consumer_is_dead_within_two_looks(spool: Path, opened: Opened) -> None:
    (spool / "new" / "1795220920443125.1.vm").write_text("m")
    reader = opened(spool)
    with consumer(spool) as process:
        for _ in range(3):
            assert [row.verdict for row in reader.see().claims] == [Verdict.ALIVE]
        assert reader.see().consumers == 1
        process.send_signal(signal.SIGKILL)
        process.wait()
        looks = [[row.verdict for row in reader.see().claims] for _ in range(2)]
    assert looks[-1] == [Verdict.DEAD]


@needs_root
def test_a_consumer_in_a_container_with_a_token(spool: Path, opened: Opened) -> None:
    (spool / "new" / "1795220920443125.1.vm").write_text("m")
    reader = opened(spool)
    with consumer(spool, *CONTAINER, "--kill-child") as process:
        (row,) = reader.see().claims
        assert (row.verdict, row.evidence) == (Verdict.ALIVE, "running")
        process.kill()
        process.wait()
        see_until(reader, lambda observation: observation.counts.dead == 1)


@needs_root
def test_a_consumer_in_a_container_without_a_token(spool: Path, opened: Opened) -> None:
    """Its number there is free here, or belongs to somebody else: as long as it runs it is not called dead."""
    script = f"mv {spool}/new/m {spool}/cur/m:2,P$$; echo ready; read end"
    (spool / "new" / "m").write_text("m")
    command = [*CONTAINER, "--kill-child", "sh", "-c", script]
    reader = opened(spool)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdin is not None
        process.stdout.readline()
        for _ in range(3):
            (row,) = reader.see().claims
            assert row.verdict in (Verdict.ALIVE, Verdict.UNKNOWN)
        process.stdin.close()


def test_hostile_names_are_all_shown_and_readable(spool: Path, opened: Opened) -> None:
    for name in HOSTILE:
        Path(os.fsdecode(os.fsencode(spool / "new") + b"/" + name)).write_bytes(b"x" + name)
    reader = opened(spool)
    observation = reader.see()
    assert observation.boxes[Box.NEW].count == len(HOSTILE)
    rows = reader.listing(ListQuery(Box.NEW)).window(0, 100)
    assert sorted(os.fsencode(row.name) for row in rows) == sorted(HOSTILE)
    assert [reader.read(row.key, 300).data for row in rows] == [b"x" + os.fsencode(row.name) for row in rows]
    assert [row.note for row in observation.irregular] == ["its name is too long to be claimed"]


@pytest.mark.parametrize(("claims", "tmp", "whole"), [(2, 1, False), (1, 2, False), (1, 1, True)])
def test_judged_are_all_claims_and_all_of_tmp_or_it_says_so(
    spool: Path, opened: Opened, claims: int, tmp: int, whole: bool
) -> None:
    for box, many in (("cur", claims), ("tmp", tmp)):
        for number in range(many):
            (spool / box / f"{box}-{number}").touch()
    assert opened(spool, judged_at_most=1).see().judged_all is whole


def test_reading_is_bounded(spool: Path, opened: Opened) -> None:
    (spool / "new" / "big").write_bytes(b"0123456789")
    reader = opened(spool)
    reader.see()
    payload = reader.read(("new", "big"), 4)
    assert (payload.data, payload.size, payload.truncated) == (b"0123", 10, True)
    assert dict(payload.facts)["enqueued"]


@pytest.mark.parametrize(
    "key",
    [
        ("new", "gone"), ("new", "../../etc/passwd"), ("new", ".."), ("etc", "passwd"), ("trash", "../x"), ("new", "fifo"),
        ("new", "link"), 5,
    ],
)  # fmt: skip
def test_what_cannot_be_read_says_so(spool: Path, opened: Opened, key: object) -> None:
    os.mkfifo(spool / "new" / "fifo")
    (spool / "new" / "link").symlink_to("/etc/passwd")
    reader = opened(spool)
    reader.see()
    with pytest.raises(Unreadable):
        reader.read(key, 100)  # type: ignore[arg-type]


def test_a_missing_box_is_a_state_and_comes_back(spool: Path, opened: Opened) -> None:
    (spool / "tmp").rmdir()
    reader = opened(spool)
    observation = reader.see()
    state = observation.boxes[Box.TMP]
    assert (state.count, state.error, observation.complete) == (None, "tmp is missing", False)
    (spool / "tmp").mkdir()
    assert reader.see().complete


def test_a_replaced_box_is_listed_at_once(spool: Path, opened: Opened) -> None:
    reader = opened(spool, least=1_000.0)
    assert reader.see().boxes[Box.NEW].count == 0
    (spool / "new").rename(spool / "old")
    (spool / "new").mkdir()
    (spool / "new" / "m").touch()
    assert reader.see().boxes[Box.NEW].count == 1


def test_with_a_replaced_box_the_others_are_listed_at_once_too(spool: Path, opened: Opened) -> None:
    reader = opened(spool, least=1_000.0)
    reader.see()
    (spool / "new").rename(spool / "old")
    (spool / "new").mkdir()
    (spool / "cur" / "m:2,P4242").touch()
    assert reader.see().boxes[Box.CUR].count == 1


def test_after_lost_events_all_is_listed_at_once(spool: Path, opened: Opened) -> None:
    changed = threading.Event()

    def lossy(_: Iterable[str], stop: threading.Event) -> Iterator[Events]:
        yield Events()
        changed.wait()
        yield Events(lost=True)
        stop.wait()

    reader = opened(spool, watch=True, least=1_000.0, source=lossy)
    try:
        reader.see()
        (spool / "new" / "m").touch()
        assert reader.see().boxes[Box.NEW].count == 0
    finally:
        changed.set()
    see_until(reader, lambda observation: observation.boxes[Box.NEW].count == 1)


def test_a_box_that_becomes_a_link_leads_nowhere(spool: Path, opened: Opened, tmp_path: Path) -> None:
    reader = opened(spool)
    reader.see()
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "m").touch()
    (spool / "cur").rmdir()
    (spool / "cur").symlink_to(tmp_path / "precious")
    state = reader.see().boxes[Box.CUR]
    assert state.count is None and state.error


def test_a_spool_that_is_gone_is_a_state(spool: Path, opened: Opened) -> None:
    reader = opened(spool)
    reader.see()
    spool.rename(spool.parent / "elsewhere")
    observation = reader.see()
    assert not observation.complete and all("is missing" in state.error for state in observation.boxes.values())
    assert not observation.capabilities.change
    (spool.parent / "elsewhere").rename(spool)
    assert reader.see().complete


def test_two_files_under_one_id_are_a_conflict(spool: Path, opened: Opened) -> None:
    (spool / "new" / "m").touch()
    (spool / "cur" / "m:2,P4242").touch()
    (spool / "new" / "other").touch()
    assert opened(spool).see().conflicts == (("new", "m"), ("cur", "m:2,P4242"))


def test_one_file_with_two_names_is_strange_and_no_conflict(spool: Path, opened: Opened) -> None:
    (spool / "new" / "m").touch()
    os.link(spool / "new" / "m", spool / "cur" / "m:2,P4242")
    observation = opened(spool).see()
    assert observation.conflicts == ()
    assert {row.key: row.note for row in observation.irregular} == {
        ("new", "m"): "is in cur as well", ("cur", "m:2,P4242"): "is in new as well",
    }  # fmt: skip


def test_generation_changes_only_with_the_lists(spool: Path, opened: Opened) -> None:
    for box in ("tmp", "new", "cur"):
        os.utime(spool / box, (1_000_000_000, 1_000_000_000))
    reader = opened(spool)
    first = reader.see().generation
    assert reader.see().generation == first
    (spool / "new" / "m").touch()
    see_until(reader, lambda observation: observation.generation > first)


def test_flow_without_events_is_a_lower_bound(spool: Path, opened: Opened) -> None:
    reader = opened(spool)
    assert not reader.see().flow.measured
    (spool / "new" / "m").touch()
    flow = reader.see(rescan=True).flow
    assert (flow.measured, flow.exact, flow.arrived) == (True, False, 1)
    (spool / "new" / "m").rename(spool / "cur" / "m:2,P1")
    assert reader.see(rescan=True).flow.claimed == 1
    (spool / "cur" / "m:2,P1").unlink()
    assert [reader.see(rescan=True).flow.done for _ in range(3)] == [0, 1, 0]


def test_live_flow_counts_what_no_scan_saw(spool: Path, opened: Opened) -> None:
    reader = opened(spool, watch=True)
    see_until(reader, lambda observation: observation.flow.exact and observation.flow.measured)
    for number in range(50):
        path = spool / "new" / f"m{number}"
        path.touch()
        path.rename(spool / "cur" / f"m{number}:2,P1")
        (spool / "cur" / f"m{number}:2,P1").unlink()
    seen: list[Observation] = []

    def all_done(observation: Observation) -> bool:
        seen.append(observation)
        return sum(one.flow.done for one in seen) == 50

    see_until(reader, all_done)
    assert sum(observation.flow.arrived for observation in seen) == 50
    assert sum(observation.flow.claimed for observation in seen) == 50
    assert sum(len(observation.flow.completions) for observation in seen) == 50


def test_changes_waits_and_wakes(spool: Path, opened: Opened) -> None:
    for box in ("tmp", "new", "cur"):
        os.utime(spool / box, (1_000_000_000, 1_000_000_000))
    reader = opened(spool)
    reader.see()
    assert not reader.changes(0.01)
    reader.wake()
    assert reader.changes(60)
    assert not reader.changes(0.01)


def test_a_long_wait_ends_where_a_directory_changes_that_sends_no_events(spool: Path, opened: Opened) -> None:
    staged = spool / ".spooltop" / "stage" / ("a" * 10)
    staged.mkdir(parents=True)
    for folder in (staged, *(spool / box for box in ("tmp", "new", "cur"))):
        os.utime(folder, (1_000_000_000, 1_000_000_000))
    reader = opened(spool)
    reader.see()
    reader.see()  # now all of them are known
    assert not reader.changes(2.0)
    for folder in (spool / "tmp", staged):
        (folder / "m").touch()
        assert reader.changes(60)
        reader.see()
    staged.rename(spool / ".spooltop" / "stage" / ("b" * 10))
    assert reader.changes(60)


def test_a_change_that_came_too_early_makes_changes_return_when_it_is_due(spool: Path, opened: Opened) -> None:
    for box in ("tmp", "new", "cur"):
        os.utime(spool / box, (1_000_000_000, 1_000_000_000))
    reader = opened(spool, least=0.3)
    reader.see()
    (spool / "new" / "m").touch()
    assert reader.see().boxes[Box.NEW].count == 0
    assert reader.changes(60)
    assert reader.see().boxes[Box.NEW].count == 1


def test_what_was_set_aside_is_counted_listed_and_read(spool: Path, opened: Opened) -> None:
    folder = spool / ".spooltop" / "trash" / "7f3a"
    folder.mkdir(parents=True)
    (folder / "m:2,P4242").write_text("body")
    (folder / ".m:2,P4242.meta").write_text('{"origin": "cur", "reason": "too old", "at": 17.0, "who": "ann"}')
    reader = opened(spool)
    observation = reader.see()
    assert (observation.boxes[Box.TRASH].count, observation.boxes[Box.TRASH].bytes) == (1, 4)
    (row,) = reader.listing(ListQuery(Box.TRASH)).window(0, 9)
    assert (row.id, row.reason, row.in_box_since, row.key) == ("m", "too old", 17.0, ("trash", "7f3a/m:2,P4242"))
    payload = reader.read(row.key, 100)
    assert (payload.data, dict(payload.facts)["set aside"]) == (b"body", "too old")


@needs_root
def test_who_may_not_write_is_told_what_to_try(memory: Path) -> None:
    spool = memory / "spool"
    for path in (memory, spool, *(spool / box for box in ("tmp", "new", "cur"))):
        path.mkdir(exist_ok=True)
        path.chmod(0o755)
    script = (
        "import sys; from spooltop.backends.directory.reader import DirectoryReader\n"
        "from spooltop.backends.directory.options import OpenOptions\n"
        "from spooltop.model.vocabulary import Action\n"
        "r = DirectoryReader(sys.argv[1], OpenOptions(watch=False)); s = r.see(); r.close()\n"
        "print(s.who.words, '|', s.capabilities.why_not(Action.REQUEUE), '|', s.complete)"
    )
    completed = subprocess.run(
        ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", sys.executable, "-c", script, str(spool)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert completed.returncode == 0, completed.stderr
    words, why, complete = completed.stdout.strip().split(" | ")
    assert (words, complete) == ("read-only: cur is root:root 0755", "True")
    assert why == f"you are nobody, new belongs to root 0755. Try: sudo -u root spooltop {spool}"


def test_tmp_is_as_old_everywhere(spool: Path, opened: Opened, clock: Callable[[], float]) -> None:
    path = spool / "tmp" / "1700000000000000.1.elsewhere"
    path.touch()
    os.utime(path, (clock() - 400, clock() - 400))
    reader = opened(spool, clock=clock)
    observation = reader.see()
    (row,) = reader.listing(ListQuery(Box.TMP)).window(0, 1)
    snapshot = Observer().add(observation)
    assert row.in_box_age(clock()) == 400.0
    assert observation.boxes[Box.TMP].oldest_at == clock() - 400
    assert [problem.text for problem in snapshot.problems] == ["1 in tmp for over 5m, writer unknown, oldest 6m"]


@pytest.mark.parametrize("gone", [None, "tmp", "cur", "new"])
@pytest.mark.parametrize("read_only", [None, "opened read-only"])
@pytest.mark.parametrize("cursors", [True, False])
def test_what_a_look_allows_is_what_an_operator_does(
    spool: Path, opened: Opened, gone: str | None, read_only: str | None, cursors: bool
) -> None:
    if cursors:
        (spool / "cursors.json").write_text('{"imessage": 5}')
    if gone is not None:
        (spool / gone).rmdir()
    observation = opened(spool, layout="spool", read_only=read_only).see()
    if gone != "new":  # without it no operator opens
        options = OpenOptions(read_only=read_only)
        fresh = FreshLook(str(spool), options, World())
        messages = DirectoryOperator(str(spool), options, look=fresh.names, again=fresh.again, on_close=fresh.close)
        logs = SpoolPathLogs(str(spool), LogFiles(), state_dir=str(spool / "state"))
        operator = OperatorChain(
            messages, lambda: CursorOperator(str(spool), logs, options, above=True), Action.SET_CURSOR
        )
        operator = OperatorChain(operator, lambda: LockOperator(str(spool), logs, options), Action.UNLOCK)
        assert all(observation.capabilities.why_not(action) == operator.why_not(action) for action in Action)
        assert (observation.capabilities.why_not(Action.SET_CURSOR) is None) is (cursors and read_only is None)
    words = {None: "read-write", "tmp": "read-write in part", "cur": "read-write in part", "new": "read-only"}[gone]
    assert observation.who.words == ("READ-ONLY" if read_only else words)


@pytest.fixture
def open_spool() -> Iterator[Path]:
    """An empty spool that every user may enter: pytest's own folders are closed to others, and a second run closes them again."""
    with tempfile.TemporaryDirectory(prefix="spooltop-open-") as folder:
        Path(folder).chmod(0o755)
        for box in ("tmp", "new", "cur"):
            (Path(folder) / box).mkdir()
        yield Path(folder)


@needs_root
def test_a_living_consumer_whose_presence_may_not_be_seen_is_unknown(open_spool: Path) -> None:
    spool = open_spool
    (spool / "new" / "1795220920443125.1.vm").write_text("m")
    script = (
        "import sys; from spooltop.backends.directory.reader import DirectoryReader\n"
        "from spooltop.backends.directory.options import OpenOptions\n"
        "r = DirectoryReader(sys.argv[1], OpenOptions(watch=False)); looks = [r.see() for _ in range(3)]; r.close()\n"
        "print([(row.verdict.value, row.evidence) for row in looks[-1].claims], looks[-1].consumers)"
    )
    with consumer(spool):
        (spool / ".spooltop" / "consumers").chmod(0o700)
        done = subprocess.run(
            ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", sys.executable, "-c", script, str(spool)],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "[('unknown', 'its presence file cannot be read')] None\n"), done.stderr


@needs_root
def test_a_viewer_in_a_container_calls_nobody_dead_by_a_pid(spool: Path) -> None:
    (spool / "cur" / f"m:2,P{os.getpid()}").write_text("m")
    (spool / "tmp" / f"1795220920443125.{os.getpid()}.{os.uname().nodename}").write_text("m")
    script = (
        "import sys; from spooltop.backends.directory.reader import DirectoryReader\n"
        "from spooltop.backends.directory.options import OpenOptions\n"
        "r = DirectoryReader(sys.argv[1], OpenOptions(watch=False)); looks = [r.see() for _ in range(3)]; r.close()\n"
        "print([(row.verdict.value, row.evidence) for row in (*looks[-1].claims, *looks[-1].tmp)])"
    )
    done = subprocess.run([*CONTAINER, sys.executable, "-c", script, str(spool)], capture_output=True, text=True, check=False)
    gone = f"('unknown', 'no pid {os.getpid()} here')"
    assert (done.returncode, done.stdout) == (0, f"[{gone}, {gone}]\n"), done.stderr


def test_a_dead_claim_with_two_names_is_dead_and_noted(spool: Path, opened: Opened) -> None:
    name = f"1795220920443125.P7R{'0' * 16}.vm"
    (spool / "new" / name).write_text("m")
    os.link(spool / "new" / name, spool / "cur" / f"{name}:2,P4242")
    observation = opened(spool, processes=FakeProcesses()).see()
    (claim,) = observation.claims
    assert (claim.verdict, claim.note) == (Verdict.DEAD, "has 2 names")
    assert sorted(row.note for row in observation.irregular) == ["is in cur as well", "is in new as well"]
    assert observation.conflicts == ()


def test_of_a_storm_every_message_is_counted_once(spool: Path, opened: Opened) -> None:
    reader = opened(spool, watch=True)
    see_until(reader, lambda observation: observation.flow.exact and observation.flow.measured)
    arrived = claimed = done = 0
    exact = True
    with Spool(str(spool), durable=False) as busy:
        for turn in range(8):
            busy.put_many([b"x"] * 200, source="storm")
            busy.ack_many(list(busy.claims()))
            for _ in range(1 if turn < 7 else 300):
                flow = reader.see().flow
                arrived, claimed, done = arrived + flow.arrived, claimed + flow.claimed, done + flow.done
                exact = exact and flow.exact and not flow.requeued
                if done == 1_600:
                    break
                reader.changes(0.2)
    assert (arrived, claimed, done, exact) == (1_600, 1_600, 1_600, True)


@pytest.mark.parametrize(("box", "word"), [(Box.CUR, "holder"), (Box.TMP, "writer")])
def test_who_has_a_message_is_its_holder_or_its_writer(spool: Path, opened: Opened, box: Box, word: str) -> None:
    (spool / box / ("m:2,P4242" if box is Box.CUR else "1700000000000000.4242.here")).touch()
    reader = opened(spool, processes=FakeProcesses())
    [row] = reader.see().claims or reader.see().tmp
    facts = dict(reader.read(row.key, 9).facts)
    assert (facts[word], {"holder", "writer"} & facts.keys()) == (row.evidence, {word})


@pytest.mark.long
@pytest.mark.early
def test_claims_that_are_gone_take_no_memory(spool: Path, opened: Opened) -> None:
    """A dashboard runs for weeks."""
    reader = opened(spool)
    kept = []
    tracemalloc.start()
    try:
        for turn in range(20):
            for path in (spool / "cur").iterdir():
                path.unlink()
            for number in range(300):
                (spool / "cur" / f"turn{turn:03d}number{number:03d}:2,P4242").touch()
            assert reader.see().boxes[Box.CUR].count == 300
            gc.collect()
            kept.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    # A look may keep the claims that left since the one before; which looks do varies. The names alone of ten looks take 200 kB.
    assert min(kept[15:]) - max(kept[2:6]) < 100_000, kept
