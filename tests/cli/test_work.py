"""The worker: the fate of a message by how its command ends, and how the worker itself ends."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from spooltop.cli.commands.work import CommandWorker
from spooltop.cli.context import signals_handled
from spooltop.cli.main import Terminal
from spooltop.engine import Spool

from .streams import Stream, finish, running, spooltop


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[Spool]:
    with Spool.create(tmp_path / "s", durable=False) as spool:
        yield spool


def work(spool: Spool, *words: str, script: str = "true") -> list[str]:
    return ["work", spool.path, "--no-durable", *words, "--", "sh", "-c", script]


def boxes(spool: Spool) -> dict[str, list[str]]:
    return {box: sorted(os.listdir(os.path.join(spool.path, box))) for box in ("tmp", "new", "cur")}


EMPTY: dict[str, list[str]] = {"tmp": [], "new": [], "cur": []}
TRAPS = "trap '{}' INT TERM; echo begun; while :; do sleep 0.01; done"
"""A command that says that it runs, and what it does on a signal."""


def line(process: subprocess.Popen[bytes]) -> bytes:
    """Reads the next line of stdout: the command prints it at a certain point."""
    assert process.stdout is not None
    return process.stdout.readline()


def end(process: subprocess.Popen[bytes]) -> tuple[int, str]:
    """Exit code and stderr, once the worker has ended."""
    _, err = process.communicate()
    return process.returncode, err.decode()


def test_sigterm_ends_after_the_current_message(spool: Spool, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "go")
    spool.put(b"first")
    second = spool.put(b"second")
    with running(*work(spool, script=f"echo begun; cat {tmp_path}/go")) as process:
        assert line(process) == b"begun\n"
        process.send_signal(signal.SIGTERM)
        (tmp_path / "go").write_text("went on\n")
        assert line(process) == b"went on\n"
        code, err = end(process)
    assert (code, err.count("done"), boxes(spool)) == (0, 1, {"tmp": [], "new": [second], "cur": []})


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_an_idle_worker(spool: Spool, number: signal.Signals) -> None:
    name = spool.put(b"x")
    with running(*work(spool)) as process:
        assert process.stderr is not None
        assert name.encode() in process.stderr.readline()
        process.send_signal(number)
        assert end(process) == (0, "")


@pytest.mark.parametrize(
    "script",
    [
        TRAPS.format("exit 0"), TRAPS.format("exit 65"),
        "echo begun; sh -c 'trap \"\" TERM; exec tail -f /dev/null' & wait",  # a child that ignores it and keeps the pipe open
    ],
    ids=["exit-0", "exit-65", "child"],
)  # fmt: skip
@pytest.mark.parametrize("ends", [False, True], ids=["goes on", "ends as well"])
def test_a_command_over_its_time_is_released_whatever_it_ends_with(spool: Spool, script: str, ends: bool) -> None:
    name = spool.put(b"x")
    with running(*work(spool, "--drain", "--timeout", "0.5s", script=script)) as process:
        assert line(process) == b"begun\n"
        if ends:
            process.send_signal(signal.SIGTERM)
        code, err = end(process)
    assert code == (0 if ends else 1)
    assert f"{name} attempt 1 released (timed out after 0.5s), again in 2.0s" in err
    [left] = boxes(spool)["new"]
    assert left.endswith(",e=timeout")


def test_a_command_that_ended_before_it_was_told_to_is_acked(spool: Spool, tmp_path: Path) -> None:
    """The worker is held up between its look for ended commands and its look at the clock, until the command has ended."""
    spool.put(b"x")
    calls = 0

    def tick() -> float:
        nonlocal calls
        calls += 1
        if calls <= 2:  # the look for dead consumers, and the start of the command
            return 0.0
        if calls == 3:  # the first look at the clock: the command goes on now, and has ended before this returns
            with (tmp_path / "pid").open() as pid, (tmp_path / "go").open("w") as go:
                go.write("on\n")
                go.close()
                os.waitid(os.P_PID, int(pid.read()), os.WEXITED | os.WNOWAIT)
        return 1000.0

    os.mkfifo(tmp_path / "go")
    os.mkfifo(tmp_path / "pid")
    command = ["sh", "-c", f"echo $$ > {tmp_path}/pid; read x < {tmp_path}/go"]
    err = Stream()
    terminal = Terminal(Stream(), Stream(), err, dict(os.environ))
    assert CommandWorker(spool, command, terminal, timeout=5, drain=True, tick=tick).run() == 0
    assert calls > 3 and " done after " in err.written
    assert boxes(spool) == EMPTY


@pytest.mark.parametrize("script", ["trap '' INT; echo begun; exec tail -f /dev/null", TRAPS.format("exit 0")])
def test_a_second_signal_ends_the_command_too_and_releases_at_once(spool: Spool, script: str) -> None:
    name = spool.put(b"x")
    with running(*work(spool, script=script)) as process:
        assert line(process) == b"begun\n"
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGINT)
        code, err = end(process)
    assert code == 0 and f"{name} attempt 1 released (ended by a second signal)" in err
    assert boxes(spool)["new"] == [f"{name},n=1"]  # nothing is told of the message


def test_jobs_run_at_once(spool: Spool, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "meet")
    spool.put_many([b"read", b"write"])
    script = f"case $(cat) in read) cat {tmp_path}/meet;; write) echo met > {tmp_path}/meet;; esac"
    done = finish(work(spool, "--drain", "--jobs", "2", script=script))
    assert (done.code, done.out) == (0, "met\n")


def test_the_claim_lives_as_long_as_the_command(spool: Spool, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "go")
    name = spool.put(b"x")
    with running(*work(spool, script=f"echo begun; cat {tmp_path}/go; echo over")) as process:
        assert line(process) == b"begun\n"
        process.kill()
        process.wait()
        assert spool.recover() == []
        (tmp_path / "go").write_text("")
        assert process.stdout is not None
        assert process.stdout.read() == b"over\n"  # read to its end: the command has let go of everything it had
        assert spool.recover() == [name]


def test_a_command_that_cannot_be_started_gives_the_message_back(spool: Spool, tmp_path: Path) -> None:
    script = tmp_path / "broken"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    name = spool.put(b"x")
    done = spooltop("work", spool.path, "--", str(script))
    assert done.code == 1 and "cannot be started" in done.err
    assert [left.split(",")[0] for left in boxes(spool)["new"]] == [name]


def test_a_child_that_ends_just_before_the_wait_is_heard_of() -> None:
    """Its handler has not run yet then: the system's own write to the wakeup descriptor must end the wait."""
    bell, rope = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    woken: list[str] = []
    try:
        with signals_handled(lambda: woken.append("stop"), lambda: woken.append("wake"), rope):
            os.kill(os.getpid(), signal.SIGCHLD)
            assert woken == ["wake"]
            assert os.read(bell, 16) == bytes([signal.SIGCHLD])
    finally:
        os.close(bell)
        os.close(rope)


def test_a_drain_waits_while_the_spool_is_paused_and_says_so_once(spool: Spool) -> None:
    spool.put(b"")
    assert spooltop("pause", spool.path, "--yes", "--reason", "a schema change").code == 0
    with running(*work(spool, "--drain")) as process:
        assert process.stderr is not None
        said = process.stderr.readline().decode()
        assert said.startswith(f"spooltop: {spool.path} is paused by ") and "a schema change" in said
        assert said.endswith("; waiting for spooltop resume\n") and spool.depth() == 1
        assert spooltop("resume", spool.path, "--yes").code == 0
        code, err = end(process)
    assert code == 0 and "was resumed" in err and "done after" in err and len(err.splitlines()) == 2
    assert boxes(spool) == EMPTY
    assert spooltop("pause", spool.path, "--yes").code == 0
    assert finish(work(spool, "--drain")).code == 0, "an empty one ends"
