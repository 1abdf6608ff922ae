"""Queues and files in them that somebody made to hang a look, to break it, or to lead an operator out of the directory."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from spooltop.backends.layouts.definition.layout import Layout
from spooltop.backends.layouts.definition.load import parse_layout
from spooltop.backends.layouts.operator.operator import LayoutOperator
from spooltop.backends.layouts.reader import LayoutReader
from spooltop.backends.surroundings import Users
from spooltop.model.filters.selection import Selection
from spooltop.model.protocols import ListQuery
from spooltop.model.row import Row
from spooltop.model.vocabulary import Action, Box, Verdict
from spooltop.operate.operations import Operations
from tests.backends.layouts.queues import operations, outcomes
from tests.backends.layouts.test_reader import NOW, Around, reader
from tests.builders import LAYOUTS, LayoutWorld


class CountingAround(Around):
    """Counts the questions that may read all of /proc."""

    asked = 0

    def pids(self, claims: Sequence[tuple[int, float]], root: int) -> list[tuple[Verdict, str]]:
        self.asked += 1
        return super().pids(claims, root)

    def locks(self, root: int) -> Callable[[os.stat_result], Users]:
        self.asked += 1
        return super().locks(root)

    def opened(self, found: Sequence[os.stat_result]) -> list[Users]:
        self.asked += 1
        return super().opened(found)


def rows_in(look: LayoutReader) -> list[Row]:
    return [row for box in Box for row in look.listing(ListQuery(box)).window(0, 999)]


def job(path: Path, text: str, id: str) -> None:
    (path / f"queue/{900 + len(id):012}-{id}.msg").write_text(text)
    (path / f"jobs/{id}.state").write_text("queued:1795220920720")


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
    job(queue, f'{{"createdAt": {text}, "attempts": {text}, "maxAttempts": {text}}}', "evil")
    (queue / "errors/evil-2.error").write_text(f'{{"message": {text}}}')
    (queue / "errors/evil-2.ttl").write_text(text)
    (queue / "cleanup-leader.lock").write_text(f'{{"ownerId": {text}, "expiresAt": {text}}}')
    (queue / "workers/worker-1.worker").write_text(text)
    (queue / "jobs/other.state").write_text(f"queued:{text}")
    look = reader(queue, "job-queue")
    for _ in range(2):
        look.see()
    rows = {row.id: row for row in rows_in(look)}
    look.close()
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
    look = reader(queue, "job-queue")
    observation = look.see()
    rows = {row.id: row for row in rows_in(look)}
    look.close()
    assert observation.complete and "secret" not in rows and "dir" not in rows
    assert rows["link"].attempt is None and rows["fifo"].attempt is None and rows["huge"].attempt is None
    for action, box in ((Action.REQUEUE, Box.CUR), (Action.HOLD, Box.NEW), (Action.PURGE, Box.REJECTED), (Action.PURGE, Box.TMP)):
        world.undo(world.do(action, Selection(box=box, everything=True), force=True)[0].operation)
    assert (stat.S_IMODE(secret.stat().st_mode), secret.stat().st_ctime_ns, sorted(os.listdir(outside))) == before


def test_a_state_that_is_a_link_is_not_written_through(memory: Path) -> None:
    queue, secret = memory / "queue", memory / "secret"
    LAYOUTS["job-queue"](queue)
    secret.write_text("processing:1795220920720:worker-1")
    state = queue / "jobs/slow-1.state"
    state.unlink()
    state.symlink_to(secret)
    ops = operations(queue, "job-queue")
    plan = ops.plan(Action.REQUEUE, Selection(box=Box.CUR, everything=True))
    (refusal,) = plan.refused
    assert not plan.items and refusal.reason.startswith("jobs/slow-1.state cannot be read")
    assert secret.read_text() == "processing:1795220920720:worker-1"


@pytest.mark.parametrize("name", ["nq", "dirq-simple", "huey"])
def test_what_reads_all_processes_is_asked_a_few_times_however_many_files_there_are(memory: Path, name: str) -> None:
    queue = memory / "queue"
    LAYOUTS[name](queue)
    for number in range(300):
        if name == "nq":
            (queue / f",1a1fb8156{number:02x}.{number + 1}").write_text("exec nq true\n")
        elif name == "huey":
            (queue / f"queue/fffe-01a1fb8{number:05x}.tmp").write_text("a task")
        else:
            (queue / f"6b00e590/6b00e5b7{number:06x}.tmp").write_text("an element")
    around = CountingAround(seen=name != "nq")  # where locks are not seen, the pid is asked for
    look = reader(queue, name, around)
    look.see()
    judged = [row for row in rows_in(look) if row.verdict is not None]
    look.close()
    assert len(judged) >= 300 or name == "nq"
    assert around.asked <= 3


def layout(text: str) -> Layout:
    return parse_layout("mine.toml", text)


def test_a_name_that_a_rule_fills_in_leads_nowhere_else(memory: Path) -> None:
    """Names cannot hold a slash, but what is filled in of one may be .. alone."""
    queue = memory / "queue"
    (queue / "work").mkdir(parents=True)
    (memory / "victim").write_text("not of the queue")
    (queue / "work/...job").write_text("its id is ..")
    mine = layout(
        'name = "mine"\ndetect = ["work/"]\n[[match]]\nbox = "new"\npath = "work/{id}.job"\n'
        'metadata = { reason = "file:{id}/victim" }\n'
        '[[action]]\nname = "purge"\nfrom = "new"\nsteps = ["trash {id}/victim", "trash {path}"]\n'
    )
    look = LayoutReader(str(queue), mine, Around(), clock=lambda: NOW)
    look.see()
    (row,) = rows_in(look)
    look.close()
    assert (row.id, row.reason) == ("..", "")
    ops = operations_of(queue, mine)
    plan = ops.plan(Action.PURGE, Selection(box=Box.NEW, everything=True))
    assert not plan.items and [one.reason for one in plan.refused] == ["its name leads out of the queue"]
    assert outcomes(ops.apply(plan)) == [] and (memory / "victim").exists()


def operations_of(queue: Path, mine: Layout) -> Operations:
    state = str(queue.parent / "state")
    one = LayoutOperator(str(queue), mine, Around(), user="ann", wait=lambda seconds: None, state_dir=state)
    return Operations(one, str(queue), lambda: NOW, syslog=lambda words: None)


def test_numbers_in_json_keep_their_meaning(memory: Path) -> None:
    queue = memory / "queue"
    LAYOUTS["job-queue"](queue)
    job(queue, json.dumps({"createdAt": 1795220920720, "attempts": 3}), "good")
    look = reader(queue, "job-queue")
    look.see()
    row = next(row for row in rows_in(look) if row.id == "good")
    look.close()
    assert (row.enqueued_at, row.attempt) == (1795220920.72, 3)
