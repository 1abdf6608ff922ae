"""Queues of other programs as the dashboard and every command see them: boxes, verdicts with their evidence, problems."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from spooltop.backends.layouts.cross_checks import LostEntries, read_states
from spooltop.backends.layouts.definition.library import SHIPPED, read_layout
from spooltop.backends.layouts.detect import open_root
from spooltop.backends.layouts.reader import LayoutReader
from spooltop.backends.layouts.sort_files import QueueFile, sort_files
from spooltop.backends.surroundings import Users
from spooltop.errors import Unreadable
from spooltop.model.capabilities import Capabilities
from spooltop.model.look.capacity import Disk
from spooltop.model.look.locks import Holders
from spooltop.model.look.observation import Observation, QueueFinding, Viewer
from spooltop.model.protocols import ListQuery
from spooltop.model.vocabulary import Box, Verdict

NOW = 1795220990.0


class Around:
    """A machine on which ``watching`` processes watch, ``locking`` lock and ``alive`` live; ``seen``: all are visible, ``sure``:
    a pid that is gone here is gone everywhere. ``claims`` are those whose pids were asked for."""

    def __init__(
        self, *, watching: Sequence[int] = (), locking: Sequence[int] = (), opening: Sequence[int] = (),
        alive: Sequence[int] = (), seen: bool = True, local: bool = True, sure: bool = True,
    ) -> None:  # fmt: skip
        self.sure = sure
        self.claims: list[tuple[int, float]] = []
        self.users = {"watching": tuple(watching), "locking": tuple(locking), "opening": tuple(opening)}
        self.alive = alive
        self.seen = seen
        self.is_local = local

    def _users(self, kind: str) -> Users:
        return Users(self.users[kind], self.seen, "" if self.seen else "the processes of other users cannot be seen")

    def local(self, root: int) -> bool:
        return self.is_local

    def pids(self, claims: Sequence[tuple[int, float]], root: int) -> list[tuple[Verdict, str]]:
        self.claims += claims
        gone = (Verdict.DEAD, "exited") if self.sure else (Verdict.UNKNOWN, "no such pid here")
        return [(Verdict.ALIVE, "running") if pid in self.alive else gone for pid, _ in claims]

    def locks(self, root: int) -> Callable[[os.stat_result], Users]:
        users = self._users("locking")
        return lambda found: users

    def opened(self, found: Sequence[os.stat_result]) -> list[Users]:
        return [self._users("opening") for _ in found]

    def watching(self, found: os.stat_result, root: int) -> Users:
        return self._users("watching")

    def holders(self, shown: str, found: os.stat_result, folder: int) -> Holders:
        return Holders(shown)

    def disk(self, root: int) -> Disk:
        return Disk()

    def viewer(self, capabilities: Capabilities, read_only: str) -> Viewer:
        return Viewer("ann", 1000, read_only)


def reader(path: Path, layout: str, around: Around | None = None) -> LayoutReader:
    return LayoutReader(
        str(path), read_layout(os.path.join(SHIPPED, f"{layout}.toml")), around or Around(), clock=lambda: NOW
    )


def look(path: Path, layout: str, around: Around | None = None) -> Observation:
    one = reader(path, layout, around)
    try:
        return one.see()
    finally:
        one.close()


def test_a_lost_state_a_cancelled_job_and_a_conflict_are_told(real_spools: Path) -> None:
    queue = real_spools / "jobqueue_filestorage"
    (queue / "jobs" / "gone-1.state").write_text("queued:1795220920720")
    (queue / "jobs" / "wait-1.state").unlink()
    (queue / "queue" / "000000000009-retry-1.msg").write_text("{}")
    found = look(queue, "job-queue")
    lost, conflict = found.findings
    assert (lost.code, lost.ids, lost.box) == ("lost", ("gone-1",), None)
    assert lost.text.startswith("gone-1: its state says queued, its message is nowhere")
    assert conflict == QueueFinding(
        "conflict",
        "retry-1: twice in queue: two producers put it at once; the second claim replaces the first without a word",
        1, ("retry-1",), Box.NEW, ("queue/000000000004-retry-1.msg", "queue/000000000009-retry-1.msg"),
    )  # fmt: skip
    one = reader(queue, "job-queue")
    one.see()
    notes = {row.id: row.note for row in one.listing(ListQuery(Box.NEW)).window(0, 9)}
    one.close()
    assert notes == {"retry-1": "", "wait-1": "cancelled: it has no state, a worker drops it when it comes"}


def test_a_state_that_was_written_just_now_is_not_lost_yet(real_spools: Path) -> None:
    """job-queue writes the state of a job, then its message."""
    state = real_spools / "jobqueue_filestorage" / "jobs" / "begun-1.state"
    state.write_text("queued:1795220990000")
    os.utime(state, (NOW - 1, NOW - 1))
    assert look(real_spools / "jobqueue_filestorage", "job-queue").findings == ()
    os.utime(state, (NOW - 6, NOW - 6))
    (lost,) = look(real_spools / "jobqueue_filestorage", "job-queue").findings
    assert lost.ids == ("begun-1",)


def test_a_message_that_moves_while_its_directories_are_read_is_not_lost(real_spools: Path) -> None:
    """A claim from queue/, which was not read yet, into processing/, which was."""
    queue = real_spools / "jobqueue_filestorage"
    layout = read_layout(os.path.join(SHIPPED, "job-queue.toml"))
    root = open_root(str(queue))
    files = sort_files(layout, root)[0]
    states = read_states(layout, root, files)
    moving = [file for file in files if file.id != "wait-1"]
    asked: list[int] = []

    def again() -> tuple[Sequence[QueueFile], Mapping[str, str]]:
        asked.append(1)
        return files, states

    lost = LostEntries(layout, root)
    assert lost.look(moving, states, NOW, again) == {} and asked == [1]
    assert lost.look(moving, states, NOW, lambda: (moving, states)) == {"jobs/wait-1.state": "queued:1795220920723"}
    assert lost.look(moving, states, NOW, again) == {"jobs/wait-1.state": "queued:1795220920723"} and asked == [1]
    os.close(root)


def test_a_box_that_is_never_visible_is_no_problem(real_spools: Path) -> None:
    found = look(real_spools / "huey_filestorage", "huey")
    cur = found.boxes[Box.CUR]
    assert (cur.count, cur.error) == (None, "") and cur.note.startswith("huey deletes tasks as it takes them")
    assert found.boxes[Box.NEW].count == 4


@pytest.mark.parametrize(
    ("layout", "absent"),
    [
        ("job-queue", {"cursors"}), ("dirq-simple", {"cursors"}), ("huey", {"cursors", "locks"}),
        ("kombu", {"cursors", "locks", "tmp"}), ("postfix", {"cursors", "locks"}),
    ],
)  # fmt: skip
def test_a_queue_has_only_the_views_of_its_layout(tmp_path: Path, layout: str, absent: set[str]) -> None:
    assert look(tmp_path, layout).absent.keys() == absent


@pytest.mark.parametrize(
    ("around", "box", "verdict"),
    [
        (Around(locking=[78]), Box.NEW, None),
        (Around(seen=False), Box.NEW, None),
        (Around(), Box.CUR, Verdict.DEAD),
    ],
)
def test_an_nq_job_waits_while_it_is_locked(tmp_path: Path, around: Around, box: Box, verdict: Verdict | None) -> None:
    (tmp_path / ",1a1fb81560e.78").write_text("exec nq sleep 9")
    one = reader(tmp_path, "nq", around)
    found = one.see()
    (row,) = one.listing(ListQuery(box)).window(0, 9)
    one.close()
    assert row.verdict is verdict and found.boxes[Box.NEW].count == (box is Box.NEW)


def test_the_end_of_an_nq_job_is_read_once_until_it_changes(tmp_path: Path) -> None:
    job = tmp_path / ",1a1fb81560e.78"
    job.write_text("exec nq yes\n" + "y\n" * 50_000)
    one = reader(tmp_path, "nq")
    assert one.see().boxes[Box.DELIVERED].count == 0
    with job.open("a") as file:
        file.write("\n[exited with status 141.]\n")
    assert one.see().boxes[Box.DELIVERED].count == 1
    (row,) = one.listing(ListQuery(Box.DELIVERED)).window(0, 9)
    assert row.reason == "exited with status 141"
    job.chmod(0o000)
    os.chmod(job, 0o600)
    assert one.see().boxes[Box.DELIVERED].count == 1
    one.close()


def test_a_followed_message_is_gone_at_the_second_look_without_it(tmp_path: Path, real_spools: Path) -> None:
    times = iter(range(1000))
    queue = real_spools / "jobqueue_filestorage"
    layout = read_layout(os.path.join(SHIPPED, "job-queue.toml"))
    one = LayoutReader(str(queue), layout, Around(), clock=lambda: NOW + next(times))

    def seen() -> list[tuple[Box | None, bool]]:
        one.see()
        found = one.follow(["wait-1", "nowhere"], 0.0)
        return [(found[id].box, found[id].gone_at is not None) for id in ("wait-1", "nowhere")]

    assert seen() == [(Box.NEW, False), (None, False)]
    message = next((queue / "queue").glob("*wait-1.msg"))
    message.rename(tmp_path / "taken")
    assert seen() == [(None, False), (None, False)]
    assert seen() == [(None, True), (None, False)]
    (tmp_path / "taken").rename(message)
    assert seen() == [(Box.NEW, False), (None, False)]
    one.close()


def test_a_message_is_read_and_a_gone_one_says_so(real_spools: Path) -> None:
    queue = real_spools / "jobqueue_filestorage"
    one = reader(queue, "job-queue")
    one.see()
    key = (Box.CUR.value, "processing/worker-1/slow-1.msg")
    payload = one.read(key, 8)
    assert (payload.data, payload.truncated) == (b'{"id":"s', True)
    assert ("file", "processing/worker-1/slow-1.msg") in payload.facts
    (queue / "processing/worker-1/slow-1.msg").unlink()
    with pytest.raises(Unreadable, match="gone since"):
        one.read(key, 8)
    with pytest.raises(Unreadable, match="no message of this queue"):
        one.read((Box.CUR.value, "../secret"), 8)
    one.close()


def test_facts_are_read_again_when_a_file_changes_and_only_then(real_spools: Path) -> None:
    queue = real_spools / "jobqueue_filestorage"
    file = queue / "queue" / "000000000004-retry-1.msg"

    def attempts(one: LayoutReader) -> Mapping[str, int | None]:
        one.see()
        return {row.id: row.attempt for row in one.listing(ListQuery(Box.NEW)).window(0, 9)}

    one = reader(queue, "job-queue")
    assert attempts(one)["retry-1"] == 0
    generation = one.see().generation
    assert one.see().generation == generation
    new = queue / "queue" / ".draft"
    new.write_text(json.dumps({"id": "retry-1", "attempts": 3}))
    new.rename(file)
    assert attempts(one)["retry-1"] == 3
    assert one.see().generation > generation
    one.close()


def test_a_queue_with_too_many_names_is_not_complete(real_spools: Path) -> None:
    layout = read_layout(os.path.join(SHIPPED, "huey.toml"))
    one = LayoutReader(str(real_spools / "huey_filestorage"), layout, Around(), clock=lambda: NOW, most=3)
    found = one.see()
    assert not found.complete and not found.boxes[Box.NEW].complete
    one.close()
