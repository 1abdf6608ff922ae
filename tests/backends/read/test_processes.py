"""Contents of a process table: a table of the test's own, and the kernel's as seen by users other than root."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from spooltop.backends.directory.liveness.processes import Processes


def status(proc: Path, pid: int, *numbers: int) -> Path:
    path = proc / str(pid)
    path.mkdir()
    (path / "status").write_text(f"Name:\tx\nPid:\t{pid}\nNSpid:\t{' '.join(map(str, numbers))}\nThreads:\t1\n")
    return path


def stat(proc: Path, pid: int, state: str, threads: int) -> None:
    (proc / str(pid)).mkdir()
    fields = [state, *["0"] * 16, str(threads), "0", "4200", "0"]
    (proc / str(pid) / "stat").write_text(f"{pid} (a ) Z name) {' '.join(fields)}\n")


def test_all_who_have_a_number_in_any_namespace(tmp_path: Path) -> None:
    status(tmp_path, 1, 1)
    status(tmp_path, 77, 77, 42)
    status(tmp_path, 78, 78)
    found = Processes(str(tmp_path)).namesakes([42, 43])
    assert found is not None and {pid: [one.pid for one in those] for pid, those in found.items()} == {42: [77], 43: []}


def test_a_table_without_the_first_process_hides_others_too(tmp_path: Path) -> None:
    """As with hidepid (proc(5))."""
    status(tmp_path, 77, 77, 42)
    assert Processes(str(tmp_path)).namesakes([42]) is None


@pytest.mark.parametrize("how", ["closed", "without its numbers"])
def test_a_process_that_hides_its_numbers_may_have_any(tmp_path: Path, how: str) -> None:
    status(tmp_path, 1, 1)
    path = status(tmp_path, 77, 77, 42) / "status"
    path.unlink()
    if how == "closed":
        path.mkdir()  # what cannot be read, root or not
    else:
        path.write_text("Name:\tx\n")
    assert Processes(str(tmp_path)).namesakes([42]) is None


@pytest.mark.parametrize(
    ("state", "threads", "zombie"), [("Z", 1, True), ("X", 0, True), ("Z", 3, False), ("S", 1, False), ("R", 3, False)]
)
def test_a_process_whose_leader_ended_before_its_threads_lives(tmp_path: Path, state: str, threads: int, zombie: bool) -> None:
    stat(tmp_path, 42, state, threads)
    found = Processes(str(tmp_path)).process(42)
    assert found is not None and found.zombie is zombie
    assert found.started == 4200 / os.sysconf("SC_CLK_TCK")


@pytest.mark.skipif(os.geteuid() != 0, reason="becoming another user is root's")
def test_a_process_of_another_user_exists(tmp_path: Path) -> None:
    script = (
        "import sys; from spooltop.backends.directory.liveness.processes import Processes\n"
        "print(Processes().exists(int(sys.argv[1])))"
    )
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    with subprocess.Popen(["sleep", "1000"]) as other:
        command = [*nobody, sys.executable, "-c", script, str(other.pid)]
        alive = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        other.kill()
        other.wait()
        gone = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert (alive, gone) == ("True\n", "False\n")


def test_a_process_that_belongs_to_another_user_exists() -> None:
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            if os.geteuid() == 0:
                os.setuid(65534)
            code = 0 if Processes().exists(1) else 1
        finally:
            os._exit(code)
    assert os.waitpid(pid, 0)[1] == 0
