"""Queues of other programs as every front end sees them: kinds, boxes, problems, contents, Postfix's, and hostile ones."""

from __future__ import annotations

import json
import os
import random
import stat
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from spooltop.control import Control, open_control
from spooltop.errors import Unreadable
from spooltop.model.plan import Selection
from spooltop.model.snapshot import Ages, QueueFinding
from spooltop.model.vocabulary import Action, Box, Verdict
from tests.backends.layouts.queues import NOW, Around, opened, rows_of, use_own_layouts
from tests.builders import LAYOUTS, LayoutWorld
from tests.cli.streams import spooltop


@pytest.fixture
def jobs(tmp_path: Path) -> Path:
    LAYOUTS["job-queue"](tmp_path / "queue")
    return tmp_path / "queue"


def findings(control: Control) -> tuple[QueueFinding, ...]:
    return control.look().observation.findings


@pytest.mark.parametrize(
    ("name", "layout"),
    [
        ("dirq_simple", "dirq simple"), ("huey_filestorage", "huey FileStorage"),
        ("jobqueue_filestorage", "job-queue FileStorage"), ("maildir_stdlib", None), ("seed_atomicfilequeue", None),
        ("seed_cursors", None), ("seed_maildirqueue", None), ("stouputils_lockfifo", None),
    ],
)  # fmt: skip
def test_each_real_queue_has_its_own_layout_and_no_other(real_spools: Path, name: str, layout: str | None) -> None:
    known = [json.loads(line)["name"] for line in spooltop("layouts", "--json").out.splitlines()]
    assert [one for one in known if spooltop("layouts", "try", one, real_spools / name).code in (0, 4)] == [layout] * bool(layout)
    with open_control(str(real_spools / name), watch=False, settings={}) as control:
        assert (control.layout == "layout") is bool(layout)


def test_a_state_that_was_written_just_now_is_not_lost_yet(jobs: Path) -> None:
    """job-queue writes the state of a job, then its message."""
    state = jobs / "jobs" / "begun-1.state"
    state.write_text("queued:1795220990000")
    for age, ids in ((1, []), (6, ["begun-1"])):
        os.utime(state, (NOW - age, NOW - age))
        with opened(jobs, "job-queue") as control:
            assert [id for finding in findings(control) for id in finding.ids] == ids


def test_a_message_that_moves_while_its_directories_are_read_is_not_lost(jobs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A claim from queue/, which was not read yet, into processing/, which was."""
    (message,) = (jobs / "queue").glob("*-wait-1.msg")
    scandir = os.scandir

    def claimed_before(folder: Any) -> Any:
        if message.exists() and os.readlink(f"/proc/self/fd/{folder}") == str(jobs / "queue"):
            message.rename(jobs / "processing/worker-1/wait-1.msg")
        return scandir(folder)

    monkeypatch.setattr(os, "scandir", claimed_before)
    with opened(jobs, "job-queue") as control:
        assert findings(control) == () and not message.exists()
        assert "wait-1" in rows_of(control, Box.CUR)
        (jobs / "jobs/wait-1.state").write_text("queued:1795220920723")
        os.utime(jobs / "jobs/wait-1.state", (1, 1))
        (jobs / "processing/worker-1/wait-1.msg").unlink()
        assert [finding.ids for finding in findings(control)] == [("wait-1",)]


@pytest.mark.parametrize(
    ("around", "box", "verdict"),
    [(Around(locking=[78]), Box.NEW, None), (Around(seen=False), Box.NEW, None), (Around(), Box.CUR, Verdict.DEAD)],
)
def test_an_nq_job_waits_while_it_is_locked(tmp_path: Path, around: Around, box: Box, verdict: Verdict | None) -> None:
    (tmp_path / ",1a1fb81560e.78").write_text("exec nq sleep 9")
    with opened(tmp_path, "nq", around) as control:
        (row,) = rows_of(control).values()
    assert (row.box, row.verdict) == (box, verdict)


def test_the_end_of_an_nq_job_is_read_again_when_it_changes(tmp_path: Path) -> None:
    job = tmp_path / ",1a1fb81560e.78"
    job.write_text("exec nq yes\n" + "y\n" * 50_000)
    with opened(tmp_path, "nq") as control:
        assert not rows_of(control, Box.DELIVERED)
        with job.open("a") as file:
            file.write("\n[exited with status 141.]\n")
        (row,) = rows_of(control, Box.DELIVERED).values()
        assert row.reason == "exited with status 141"
        job.chmod(0o600)
        assert len(rows_of(control, Box.DELIVERED)) == 1


def test_a_followed_message_is_gone_at_the_second_look_without_it(tmp_path: Path, jobs: Path) -> None:
    times = count()

    def followed() -> list[tuple[Box | None, bool]]:
        control.look()
        found = control.follow(["wait-1", "nowhere"], 0.0)
        return [(found[id].box, found[id].gone_at is not None) for id in ("wait-1", "nowhere")]

    with opened(jobs, "job-queue", clock=lambda: NOW + next(times)) as control:
        assert followed() == [(Box.NEW, False), (None, False)]
        message = next((jobs / "queue").glob("*wait-1.msg"))
        message.rename(tmp_path / "taken")
        assert [followed(), followed()] == [[(None, False)] * 2, [(None, True), (None, False)]]
        (tmp_path / "taken").rename(message)
        assert followed() == [(Box.NEW, False), (None, False)]


def test_a_message_is_read_and_a_gone_one_says_so(jobs: Path) -> None:
    key = (Box.CUR.value, "processing/worker-1/slow-1.msg")
    with opened(jobs, "job-queue") as control:
        control.look()
        payload = control.read(key, 8)
        assert (payload.data, payload.truncated) == (b'{"id":"s', True)
        assert ("file", "processing/worker-1/slow-1.msg") in payload.facts
        (jobs / "processing/worker-1/slow-1.msg").unlink()
        with pytest.raises(Unreadable, match="gone since"):
            control.read(key, 8)
        with pytest.raises(Unreadable, match="no message of this queue"):
            control.read((Box.CUR.value, "../secret"), 8)


def test_facts_are_read_again_when_a_file_changes_and_only_then(jobs: Path) -> None:
    with opened(jobs, "job-queue") as control:
        assert rows_of(control, Box.NEW)["retry-1"].attempt == 0
        generation = control.look().observation.generation
        assert control.look().observation.generation == generation
        (jobs / "queue/.draft").write_text(json.dumps({"id": "retry-1", "createdAt": 1795220920720, "attempts": 3}))
        (jobs / "queue/.draft").rename(jobs / "queue/000000000004-retry-1.msg")
        row = rows_of(control, Box.NEW)["retry-1"]
        assert (row.enqueued_at, row.attempt) == (1795220920.72, 3)
        assert control.look().observation.generation > generation


def test_a_queue_with_too_many_names_is_not_complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    LAYOUTS["nq"](tmp_path)
    monkeypatch.setattr("spooltop.backends.layouts.sort_files.MOST", 1)
    with opened(tmp_path, "nq") as control:
        seen = control.look().observation
    assert not seen.complete and not seen.boxes[Box.NEW].complete


LATER = 1795410000.0


def made(*records: tuple[str, bytes]) -> bytes:
    """A file of these records."""
    out = b""
    for letter, text in records:
        length, size = len(text), b""
        while length > 0x7F:
            size += bytes([length & 0x7F | 0x80])
            length >>= 7
        out += letter.encode() + size + bytes([length]) + text
    return out


@pytest.fixture
def queue(tmp_path: Path) -> Path:
    for name in ("active", "incoming", "deferred/A", "hold"):
        (tmp_path / name).mkdir(parents=True)
    return tmp_path


def put(queue: Path, number: int, sender: str, age: float) -> Path:
    path = queue / "deferred" / "A" / f"A{number:09X}"
    time = f"{LATER - age:.0f} 0".encode()
    path.write_bytes(made(("C", b" 1 "), ("T", time), ("A", b"x" * 128), ("S", sender.encode()), ("M", b"")))
    return path


def looked(queue: Path, *, times: int = 1) -> tuple[Ages, int]:
    with opened(queue, "postfix", clock=lambda: LATER) as control:
        for _ in range(times):
            ages = control.look().observation.ages
        unread = sum(row.source is None for row in rows_of(control, Box.NEW).values()) if times == 1 else 0
    assert ages is not None
    return ages, unread


def test_no_bytes_break_a_look(queue: Path) -> None:
    chance, whole = random.Random(7), made(("C", b"  276 "), ("A", b"x" * 300), ("S", b"Ann@Shop.example"))
    forged = [bytes(chance.choices(b"TSARM\x00\x01\x10\x7f\x80\xff", k=chance.randrange(60))) for _ in range(400)]
    for number, data in enumerate([*forged, *(whole[:end] for end in range(len(whole)))]):
        (queue / "deferred" / "A" / f"A{number:09X}").write_bytes(data)
    with opened(queue, "postfix", clock=lambda: LATER) as control:
        rows = rows_of(control)
    assert len(rows) == 400 + len(whole) and all(len(row.source or "") <= 3 * 60 for row in rows.values())
    assert {row.source for id, row in rows.items() if int(id, 16) >= int(f"A{400:09X}", 16)} == {None}


def test_ages_by_the_domain_of_senders(queue: Path) -> None:
    for number in range(4):
        put(queue, number, f"n{number}@Letter.example", 30)
    put(queue, 9, "", 90_000)
    (queue / "deferred" / "A" / "AFFFFFFFF1").write_bytes(b"S\xff\xff")
    ages, unread = looked(queue)
    assert [(each.source, each.total, each.counts) for each in ages.by_source] == [
        ("letter.example", 4, (0, 4, 0, 0, 0, 0)), (None, 1, (0,) * 6), ("MAILER-DAEMON", 1, (0, 0, 0, 0, 0, 1)),
    ]  # fmt: skip
    assert (ages.looked_at, ages.of, ages.undated, unread) == (6, 6, 1, 1)


def test_a_large_queue_is_read_by_an_even_sample_first(queue: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spooltop.backends.layouts.reader._READ_AT_MOST", 100)
    for number in range(400):
        put(queue, number, f"a@{'first' if number < 200 else 'second'}.example", 30)
    ages, _ = looked(queue)
    assert (ages.looked_at, ages.of) == (100, 400) and [each.total for each in ages.by_source] == [50, 50]
    ages, _ = looked(queue, times=4)
    assert (ages.looked_at, ages.of) == (400, 400)


def test_mail_that_is_not_due_does_not_wait_for_anybody(queue: Path) -> None:
    due, later = put(queue, 1, "a@b.example", 30), put(queue, 2, "a@b.example", 90_000)
    os.utime(due, (LATER - 60, LATER - 60))
    os.utime(later, (LATER + 900, LATER + 900))
    with opened(queue, "postfix", clock=lambda: LATER) as control:
        new = control.look().observation.boxes[Box.NEW]
    assert (new.count, new.due, new.oldest_at) == (2, 1, LATER - 30)
    due.unlink()
    now = LATER
    with opened(queue, "postfix", clock=lambda: now) as control:
        for _ in range(0, 885, 15):
            now += 15
            snapshot = control.look()
            assert snapshot.observation.boxes[Box.NEW].due == 0 and [problem.code for problem in snapshot.problems] == []


class CountingAround(Around):
    """Counts the questions that may read all of /proc."""

    asked = 0

    def pids(self, claims: Sequence[tuple[int, float]], root: int) -> Any:
        self.asked += 1
        return super().pids(claims, root)

    def locks(self, root: int) -> Any:
        self.asked += 1
        return super().locks(root)

    def opened(self, files: Sequence[os.stat_result]) -> Any:
        self.asked += 1
        return super().opened(files)


@pytest.mark.parametrize(
    "text",
    [
        "NaN", "1e999", "-1e999", "-5", "true", "[]", "{}", "null", "9" * 4000, "9" * 60000, "[" * 60000,
        f'"{"x" * 60000}"',
    ],
    ids=lambda text: text[:8],
)
def test_no_content_of_a_job_breaks_a_look(memory: Path, text: str) -> None:
    queue = memory / "queue"
    LAYOUTS["job-queue"](queue)
    for name, content in {
        "queue/000000000904-evil.msg": f'{{"createdAt": {text}, "attempts": {text}, "maxAttempts": {text}}}',
        "jobs/evil.state": "queued:1795220920720", "errors/evil-2.error": f'{{"message": {text}}}', "errors/evil-2.ttl": text,
        "cleanup-leader.lock": f'{{"ownerId": {text}, "expiresAt": {text}}}', "workers/worker-1.worker": text,
        "jobs/other.state": f"queued:{text}",
    }.items():  # fmt: skip
        (queue / name).write_text(content)
    with opened(queue, "job-queue") as control:
        control.look()
        rows = rows_of(control)
    assert rows["evil"].enqueued_at is None or 0 < rows["evil"].enqueued_at < 1e12
    assert rows["evil"].attempt is None or 0 <= rows["evil"].attempt < 1 << 63
    assert len(rows["evil-2"].reason) <= 1000


def test_no_kind_of_file_hangs_a_look_or_leads_out(memory: Path) -> None:
    world, outside = LayoutWorld(memory, "job-queue"), memory / "outside"
    queue = world.path
    outside.mkdir()
    secret = outside / "secret.msg"
    secret.write_text('{"createdAt": 1795220920720, "attempts": 7}')
    before = stat.S_IMODE(secret.stat().st_mode), secret.stat().st_ctime_ns, sorted(os.listdir(outside))
    (queue / "queue/000000000901-link.msg").symlink_to(secret)
    (queue / "processing/evil").symlink_to(outside)
    (queue / "jobs/link.state").symlink_to(secret)
    (queue / "queue/000000000902-dir.msg").mkdir()
    for name in ("queue/000000000903-fifo.msg", "jobs/fifo.state", "errors/fifo.error", "workers/fifo.worker"):
        os.mkfifo(queue / name)
    with open(queue / "queue/000000000904-huge.msg", "wb") as file:
        file.truncate(1 << 40)
    (queue / f"queue/.{'9' * 200}.1").write_text("draft")
    (queue / f"queue/{'9' * 200}-last.msg").write_text("{}")
    deep = queue / "processing/deep"
    for _ in range(60):
        deep = deep / "d"
    deep.mkdir(parents=True)
    with opened(queue, "job-queue") as control:
        rows = rows_of(control)
        complete = control.look().observation.complete
    assert complete and "secret" not in rows and "dir" not in rows
    assert rows["link"].attempt is None and rows["fifo"].attempt is None and rows["huge"].attempt is None
    for action, box in ((Action.REQUEUE, Box.CUR), (Action.HOLD, Box.NEW), (Action.PURGE, Box.REJECTED), (Action.PURGE, Box.TMP)):
        world.undo(world.do(action, Selection(box=box, everything=True), force=True)[0].operation)
    assert (stat.S_IMODE(secret.stat().st_mode), secret.stat().st_ctime_ns, sorted(os.listdir(outside))) == before


def test_a_state_that_is_a_link_is_not_written_through(memory: Path) -> None:
    queue, secret = memory / "queue", memory / "secret"
    LAYOUTS["job-queue"](queue)
    secret.write_text("processing:1795220920720:worker-1")
    (queue / "jobs/slow-1.state").unlink()
    (queue / "jobs/slow-1.state").symlink_to(secret)
    with opened(queue, "job-queue") as control:
        plan = control.plan(Action.REQUEUE, Selection(box=Box.CUR, everything=True))
    (refusal,) = plan.refused
    assert not plan.items and refusal.reason.startswith("jobs/slow-1.state cannot be read")


@pytest.mark.parametrize("name", ["nq", "dirq-simple", "huey"])
def test_what_reads_all_processes_is_asked_a_few_times_however_many_files_there_are(memory: Path, name: str) -> None:
    queue = memory / "queue"
    LAYOUTS[name](queue)
    form = {"nq": ",1a1fb8156{0:02x}.{1}", "huey": "queue/fffe-01a1fb8{0:05x}.tmp", "dirq-simple": "6b00e590/6b00e5b7{0:06x}.tmp"}
    for number in range(300):
        (queue / form[name].format(number, number + 1)).write_text("a task")
    around = CountingAround(seen=name != "nq")  # where locks are not seen, the pid is asked for
    with opened(queue, name, around) as control:
        judged = [row for row in rows_of(control).values() if row.verdict is not None]
    assert len(judged) >= 300 or name == "nq"
    assert around.asked <= 3


def test_a_name_that_a_rule_fills_in_leads_nowhere_else(memory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names cannot hold a slash, but what is filled in of one may be .. alone."""
    queue = memory / "queue"
    (queue / "work").mkdir(parents=True)
    (memory / "victim").write_text("not of the queue")
    (queue / "work/...job").write_text("its id is ..")
    (memory / "mine.toml").write_text(
        'name = "mine"\ndetect = ["work/"]\n[[match]]\nbox = "new"\npath = "work/{id}.job"\n'
        'metadata = { reason = "file:{id}/victim" }\n'
        '[[action]]\nname = "purge"\nfrom = "new"\nsteps = ["trash {id}/victim", "trash {path}"]\n'
    )
    use_own_layouts(memory, monkeypatch)
    with open_control(str(queue), as_kind="mine", watch=False) as control:
        (row,) = rows_of(control).values()
        plan = control.plan(Action.PURGE, Selection(box=Box.NEW, everything=True))
        control.apply(plan)
    assert (row.id, row.reason) == ("..", "")
    assert not plan.items and [refusal.reason for refusal in plan.refused] == ["its name leads out of the queue"]
    assert (memory / "victim").exists()


def test_all_that_was_set_aside_together_is_one_message_whatever_the_layout_says_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue, side = tmp_path / "queue", tmp_path / "queue/.spooltop/trash/op1/0/q"
    (tmp_path / "mine.toml").write_text(
        'name = "mine"\ndetect = ["q/"]\n[[match]]\nbox = "new"\npath = "q/{id}.msg"\n'
        '[[action]]\nname = "purge"\nfrom = "new"\nsteps = ["trash {path}"]\n'
    )
    (queue / "q").mkdir(parents=True)
    side.mkdir(parents=True)
    for name in ("a.msg", "a.state"):  # by steps that took the state along
        (side / name).write_text(name)
    use_own_layouts(tmp_path, monkeypatch)
    with open_control(str(queue), as_kind="mine", watch=False) as control:
        assert list(rows_of(control, Box.TRASH)) == ["a"]
        back = control.plan(Action.RESTORE, Selection(box=Box.TRASH, everything=True))
        assert len(back.items) == 1 and control.apply(back).items[0].outcome == "done"
    assert sorted(path.name for path in (queue / "q").iterdir()) == ["a.msg", "a.state"]
