"""A further backend, made here and registered, runs under every command and the dashboard."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from spooltop import open_queue
from spooltop.backends import registry
from spooltop.cli.main import run as main
from spooltop.cli.parser import COMMANDS
from spooltop.cli.terminal import Terminal
from spooltop.control import open_control
from spooltop.engine import Spool
from spooltop.errors import NotASpool
from spooltop.model.queue import Guarantee
from spooltop.model.target import full_name
from spooltop.model.vocabulary import Box
from spooltop.tui import Options
from spooltop.tui.app import SpooltopApp
from spooltop.tui.command_lists import tabs
from spooltop.tui.commands import TABS
from spooltop.tui.threads.pace import Pace
from tests.cli.streams import Done, Stream, spooltop
from tests.cli.test_words import WITHOUT_A_PATH
from tests.tui.driving import Driver

from . import memory
from .memory import Memory, MemoryBackend

NAME = "memory://jobs"


@pytest.fixture
def jobs() -> Iterator[Memory]:
    """Three wait; one is claimed by a consumer that lives, one by another that has left."""
    queue = Memory(NAME)
    backend = MemoryBackend(queue)
    registry.register(backend)
    queue.put_many([b"one", b"two", b"three", b"four", b"five"], source="import")
    for queue.consumer in ("lives", "left"):
        queue.claim()
    queue.consumer = "me"
    queue.dead.add("left")
    yield queue
    registry.unregister(backend)


def run(*words: str, stdin: bytes = b"", code: int = 0) -> Done:
    done = spooltop(*words, stdin=stdin, environ={"TERM": "xterm", "PATH": "/bin:/usr/bin"})
    assert done.code == code, (words, done)
    return done


EVERY = {
    "bench": ((), 3, "measures a file system"), "check": ((), 2, "SPOOL CRITICAL"), "consumers": ((), 0, "left"),
    "cursors": ((), 0, "no cursors here"), "doctor": ((), 3, "examines the host"), "events": ((), 141, "claims-dead"),
    "hold": (("m3", "--yes"), 0, "held 1"), "init": ((), 0, "is ready"), "inject": (("--yes",), 3, "not with a queue in memory"),
    "locks": ((), 0, "no locks here"), "ls": ((), 0, "m3"), "metrics": ((), 0, "spooltop_messages"),
    "move": (("SPOOL", "--yes"), 1, "moved 4 messages"), "ops": ((), 0, "no operations yet"),
    "pause": (("--yes",), 3, "not with a queue in memory"), "purge": (("m3", "--yes"), 0, "purged 1"), "put": ((), 0, "m6"),
    "release": (("m3", "--yes"), 0, "released 1"), "requeue": (("m2", "--yes"), 0, "requeued 1"),
    "restore": (("m3", "--yes"), 0, "restored 1"), "resume": (("--yes",), 3, "not with a queue in memory"),
    "show": (("m1",), 0, "one"), "status": ((), 0, "memory 1.1GB free"), "tickets": ((), 0, "no tickets here"),
    "undo": (("nosuch", "--yes"), 4, "nosuch"), "unlock": (("x", "--yes"), 3, "not with a queue in memory"),
    "work": (("--drain", "--", "true"), 0, "done after"),
}  # fmt: skip
"""Words of each command that takes a queue, its exit code, and words of its answer."""


def boxes(queue: Memory) -> dict[str, list[str]]:
    return {str(box): [row.id for row in queue.judged(box)] for box in memory.BOXES if queue.judged(box)}


def test_it_is_short() -> None:
    """All that is no import and no blank line: what a new kind of queue costs."""
    code = Path(memory.__file__).read_text().partition("GOES = ")[2].splitlines()
    assert sum(1 for line in code if line.strip()) < 100


def test_the_table_has_every_command() -> None:
    assert EVERY.keys() == COMMANDS.keys() - {*WITHOUT_A_PATH, "demo"}  # which makes its own queue


class OneAnswer(Stream):
    """Output that nobody reads any more after the first answer."""

    closed_by_reader = False

    def flush(self) -> None:
        super().flush()
        if self.written and not self.closed_by_reader:  # when it is finalized it is flushed once more
            self.closed_by_reader = True
            raise BrokenPipeError


def no_dashboard(control: object, options: object) -> int:
    raise AssertionError("the dashboard was opened")


@pytest.mark.parametrize("command", EVERY)
def test_every_command_takes_it(jobs: Memory, command: str, tmp_path: Path) -> None:
    """Nothing of a command asks for a directory: each does its work, or says why not with a queue of this kind."""
    more, code, answer = EVERY[command]
    words = [command, NAME, *(str(tmp_path / "spool") if word == "SPOOL" else word for word in more)]
    Spool.create(tmp_path / "spool").close()
    out, err = OneAnswer() if command == "events" else Stream(), Stream()
    terminal = Terminal(Stream(b"hello"), out, err, {"TERM": "xterm", "PATH": "/bin:/usr/bin"})
    assert (main(words, terminal, dashboard=no_dashboard), answer in out.written + err.written) == (code, True), err.written
    assert code != 3 or NAME in err.written


def test_what_a_look_shows(jobs: Memory) -> None:
    status = run("status", NAME).out
    assert "memory 1.1GB free 25% · you are tester" in status
    assert "1 claim of a dead consumer, left" in status and "1 alive 1 DEAD" in status
    found = json.loads(run("status", NAME, "--json").out)
    assert (found["spool"], found["layout"], found["disk"]) == (NAME, "memory", None)
    assert found["resources"] == [{"name": "memory", "free": 1 << 30, "total": 4 << 30, "unit": "bytes", "readonly": False}]
    assert found["boxes"]["new"]["count"] == 3 and found["claims"] == {"alive": 1, "dead": 1, "unknown": 0}
    owner = json.loads(run("ls", NAME, "--box", "cur", "--filter", "holder:lives", "--json").out)["owner"]
    assert owner["name"] == "lives" and owner["pid"] is None
    assert run("show", NAME, "m1").out.endswith("\n\none\n")
    assert 'spooltop_claims{target="memory://jobs",verdict="dead"} 1.0' in run("metrics", NAME).out
    assert [line.split()[:3] for line in run("consumers", NAME).out.splitlines()[1:]] == [
        ["running", "?", "lives"], ["DEAD", "?", "left"],
    ]  # fmt: skip
    assert NAME in run("status", NAME, "memory://none", code=5).out


def test_changes_and_their_undo(jobs: Memory) -> None:
    refused = run("requeue", NAME, "m1", "--yes", code=3)
    assert "its consumer is connected; --force takes them anyway" in refused.err
    done = run("requeue", NAME, "m2", "--yes")
    assert f"as a command: spooltop requeue {NAME} m2" in done.out and f"undo it: spooltop undo {NAME}" in done.out
    undo = done.out.rpartition(f"undo {NAME} ")[2].strip()
    assert boxes(jobs) == {"new": ["m3", "m4", "m5", "m2"], "cur": ["m1"]}
    run("undo", NAME, undo, "--yes")
    assert boxes(jobs) == {"new": ["m3", "m4", "m5"], "cur": ["m1", "m2"]}
    run("requeue", NAME, "m1", "--force", "--yes")
    run("hold", NAME, "m3", "--yes")
    run("purge", NAME, "m4", "--yes")
    assert boxes(jobs) == {"new": ["m5", "m1"], "cur": ["m2"], "held": ["m3"], "trash": ["m4"]}
    run("release", NAME, "m3", "--yes")
    run("restore", NAME, "m4", "--yes")
    assert boxes(jobs) == {"new": ["m5", "m1", "m3", "m4"], "cur": ["m2"]}
    listed = [json.loads(line) for line in run("ops", NAME, "--json").out.splitlines()]
    assert [one["action"] for one in listed] == ["restore", "release", "purge", "hold", "requeue", "undo", "requeue"]
    assert listed[-1]["undone_by"] == listed[-2]["operation"]
    audited = run("ops", NAME, undo).out
    assert "m2" in audited and all(json.loads(line)["target"] == NAME for line in jobs.lines)


def test_a_list_that_is_ordered_in_part_says_so(jobs: Memory) -> None:
    jobs.put_many([b"x"] * 600)
    done = run("ls", NAME, "--box", "new", "--sort", "size")
    assert done.out.count("\n") == 501
    assert done.err == f"spooltop: {NAME}: new: only the first 500 messages were filtered and sorted\n"


def test_put_and_work(jobs: Memory) -> None:
    assert run("put", NAME, "--key", "k1", stdin=b"hello").out == "k1\n"
    again = json.loads(run("put", NAME, "--key", "k1", "--json", stdin=b"hello").out)
    assert again == {"schema": 1, "id": "k1", "duplicate": True}
    worked = run("work", NAME, "--drain", "--", "true").err
    assert "m2 requeued, its consumer is dead" in worked and worked.count(" done after ") == 5
    assert boxes(jobs) == {"cur": ["m1"]}
    assert run("put", NAME, "--id", "bad", stdin=b"x").out == "bad\n"
    run("work", NAME, "--drain", "--", "sh", "-c", "exit 65", code=1)
    assert boxes(jobs) == {"cur": ["m1"], "rejected": ["bad"]}
    with open_queue(NAME) as queue:
        assert Guarantee.DURABLE not in queue.guarantees


def test_a_url_shows_no_secret() -> None:
    for words in (("status", "nosuch://me:s3cret@h/0"), ("ls", "redis://me:s3cret@127.0.0.1:1/0#x"), ("init", "redis://:s3cret@h")):
        done = spooltop(*words)
        assert done.code and "s3cret" not in done.out + done.err and "://" in done.err
    with pytest.raises(NotASpool):
        open_control("nosuch://h")
    assert full_name(NAME) == NAME


async def test_the_dashboard(jobs: Memory, tmp_path: Path) -> None:
    control = open_control(NAME, settings={"XDG_STATE_HOME": str(tmp_path)})
    app = SpooltopApp(control, Options(), pace=Pace(0.2, 0.005), monotonic=time.monotonic, moment=0.0)
    async with app.run_test(size=(100, 30)) as pilot:
        driver = Driver(app, pilot, control)  # type: ignore[arg-type]
        await driver.see(NAME, "memory 1.1GB free 25%", "1 claim of a dead consumer, left")
        absent = jobs.see().absent
        seen = {"overview": "1 claim of a dead", "new": "m3", "claims": "left", "aside": "nothing is held", "consumers": "lives"}
        assert {*seen, *absent} == set(TABS)
        for view, key, _ in tabs():
            await driver.press(key)
            await driver.see(seen.get(view) or absent[view])
            assert "Tmp" not in driver.text and "Locks" not in driver.text and "7Aside" in driver.text
        await driver.press("2", "tab", "tab")
        await driver.see("nothing is held")
        await driver.press("3")
        await driver.until(lambda: app.main.row is not None and app.main.row.id == "m2", "the dead claim")
        await driver.press("x")
        await driver.see("Who is connected for m2", "threads of its process")
        await driver.press("escape", "r")
        await driver.see("Requeue 1 claim", "moves back to new")
        await driver.press("y")
        await driver.until(lambda: not jobs.judged(Box.CUR)[1:], "the requeue")
    app.finish()
    assert boxes(jobs)["new"] == ["m3", "m4", "m5", "m2"]
