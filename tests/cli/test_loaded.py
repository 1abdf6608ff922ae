"""Modules that a command loads. Each costs a part of a millisecond or more, and scripts call commands in loops."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import spooltop
from spooltop.engine import CursorFile, Spool

ROOT = Path(spooltop.__file__).parent.parent
PROGRAM = """if True:
    import sys
    from spooltop.__main__ import main
    code = main(sys.argv[1:])
    print(code, *sys.modules)
"""
CLAIMS = """if True:
    import os, sys
    from spooltop.engine import Spool
    assert Spool(sys.argv[1]).claim() is not None
    os._exit(0)
"""
HEAVY = {
    "asyncio", "concurrent", "dataclasses", "datetime", "difflib", "filelock", "hashlib", "inspect", "logging", "multiprocessing",
    "pathlib", "psutil", "random", "redis", "rich", "shutil", "socket", "ssl", "subprocess", "tempfile", "textual", "textwrap",
    "tomllib", "traceback", "urllib", "uuid", "watchfiles",
}  # fmt: skip
"""Modules that no look needs. What needs one imports it in its own function."""
_PARSER = "import argparse, sys; argparse.ArgumentParser().add_argument('x'); print(*sys.modules)"
_LOADED = subprocess.run([sys.executable, "-c", _PARSER], capture_output=True, text=True, check=True).stdout.split()
HEAVY -= {*_LOADED} - {"shutil"}
"""From Python 3.14 on the parser of arguments loads dataclasses."""


def loaded(*words: str) -> set[str]:
    """The modules that a command leaves loaded, the parts of the library by their package alone."""
    done = subprocess.run([sys.executable, "-c", PROGRAM, *words], cwd=ROOT, capture_output=True, text=True, check=True)
    code, *names = done.stdout.splitlines()[-1].split()
    assert code == "0", done.stderr
    return {name if name.startswith("spooltop") else name.partition(".")[0] for name in names}


@pytest.fixture(scope="module")
def spool(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A spool with waiting messages, a claim of our own, a foreign one, both of processes that have exited, and a cursor."""
    path = tmp_path_factory.mktemp("loaded") / "spool"
    CursorFile(str(path.parent / "cursors.json")).advance("mail", 17)
    with Spool.create(str(path), durable=False) as made:
        made.put_many((b"%d" % number for number in range(20)), source="mail")
    with subprocess.Popen([sys.executable, "-c", CLAIMS, str(path)], cwd=ROOT) as consumer:
        assert consumer.wait() == 0
    Path(path, "cur", f"1795222801446548.4290.vm:2,P{consumer.pid}").touch()
    return path


@pytest.mark.early
@pytest.mark.parametrize("words", ["-h", "--version", "help", "version"])
def test_help_loads_no_spool(words: str) -> None:
    found = loaded(words)
    assert found & HEAVY == set()
    ours = {name.removeprefix("spooltop.") for name in found if name.startswith("spooltop.")}
    needed = {"__main__", "errors", "patterns", "records", "model", "model.text"}
    versions = words in ("--version", "version")
    if versions:  # it asks the C library for the calls that guarantees rest on
        needed |= {"lazy_names", "engine", "engine.system", "engine.system.syscalls"}
    assert {name for name in ours if name.partition(".")[0] not in ("startup", "cli")} <= needed
    of_cli = {name.removeprefix("cli.") for name in ours if name.startswith("cli.")}
    assert of_cli == {"context", "main", "options", "parser", "terminal"} | ({"versions"} if versions else set())


def test_a_put_reads_the_settings_and_loads_nothing_that_looks(tmp_path: Path) -> None:
    Spool.create(str(tmp_path / "spool"), durable=False).close()
    (tmp_path / "message").write_text("x")
    found = loaded("put", str(tmp_path / "spool"), str(tmp_path / "message"))
    assert {name for name in found if name.startswith("spooltop.observe.")} == {"spooltop.observe.thresholds"}
    assert not any(name.startswith(("spooltop.operate", "spooltop.control", "spooltop.backends.layouts")) for name in found)


@pytest.mark.parametrize("command", [["status"], ["status", "--json"], ["cursors"], ["locks"], ["tickets"]])
def test_a_look_loads_neither_watchers_nor_lists_nor_plans(spool: Path, command: list[str]) -> None:
    found = loaded(*command, str(spool))
    assert found & HEAVY == set()
    package = "spooltop.backends.directory"
    assert not found & {
        f"{package}.{name}"
        for name in (
            "cursors.watcher", "cursors.writers", "events.inotify", "events.watcher", "hints", "journal.journal",
            "listing.listing", "operator.chain", "operator.operator",
        )
    }  # fmt: skip
    assert not found & {f"spooltop.backends.journal.{name}" for name in ("item_operator", "log_store", "record_log")}
    assert f"{package}.reader" in found


@pytest.mark.parametrize("own", [True, False])
def test_psutil_is_loaded_for_a_holder_that_is_shown(tmp_path: Path, own: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """It tells the command and the user of the holder: in a list, and in a status where a claim is held for long."""
    with Spool.create(str(tmp_path / "spool"), durable=False) as spool:
        spool.put(b"x")
        assert "psutil" not in loaded("ls", spool.path)
        claim = spool.claim() if own else None
        assert (claim is not None) == own
        if not own:
            Path(spool.path, "cur", f"1795222801446548.4290.vm:2,P{os.getpid()}").touch()
        assert "psutil" not in loaded("status", spool.path)
        assert "psutil" in loaded("ls", spool.path)
        monkeypatch.setenv("SPOOLTOP_CLAIM_LONG", "0")
        assert "psutil" in loaded("status", spool.path)
        if claim is not None:
            claim.ack()


def test_a_status_loads_no_other_command(spool: Path) -> None:
    found = loaded("status", str(spool))
    assert {name for name in found if name.startswith("spooltop.cli.commands.")} == {"spooltop.cli.commands.status"}
    models = {f"spooltop.model.{name}" for name in ("filters.query", "operations.plan", "protocols")}
    assert not found & {*models, "spooltop.operate", "spooltop.tui"}


def test_a_list_loads_what_makes_lists_and_no_more(spool: Path) -> None:
    found = loaded("ls", str(spool))
    assert found & HEAVY == set()
    assert "spooltop.backends.directory.listing.listing" in found and "spooltop.operate" not in found


def test_a_change_loads_neither_openssl_nor_sockets(tmp_path: Path) -> None:
    path = str(tmp_path / "spool")
    Spool.create(path, durable=False).close()
    for words in (["inject", path, "--text", "canary {n}"], ["hold", path, "ALL"], ["requeue", path, "ALL", "--box", "held"]):
        assert loaded(*words, "--yes") & HEAVY == set()


def test_no_command_loads_the_dashboard(spool: Path) -> None:
    for words in (["inject", str(spool), "--yes"], ["ops", str(spool)], [str(spool)]):
        assert not loaded(*words) & {"textual", "rich", "watchfiles"}
