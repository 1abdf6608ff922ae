"""Modules that a command loads. Each costs a part of a millisecond or more, and scripts call commands in loops."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.builders import SpoolWorld, message_id

from .streams import ROOT

PROGRAM = """if True:
    import sys
    from spooltop.__main__ import main
    code = main(sys.argv[1:])
    print(code, *sys.modules)
"""
HEAVY = {
    "asyncio", "concurrent", "dataclasses", "datetime", "difflib", "filelock", "hashlib", "inspect", "logging", "multiprocessing",
    "pathlib", "psutil", "random", "redis", "rich", "shutil", "socket", "ssl", "subprocess", "tempfile", "textual", "textwrap",
    "tomllib", "traceback", "urllib", "uuid", "watchfiles",
}  # fmt: skip
"""Modules that no look needs. What needs one imports it in its own function."""
_PARSER = "import argparse, msgspec, sys; argparse.ArgumentParser().add_argument('x'); print(*sys.modules)"
_LOADED = subprocess.run([sys.executable, "-c", _PARSER], capture_output=True, text=True, check=True).stdout.split()
HEAVY -= {*_LOADED} - {"shutil"}
"""msgspec and the parser of arguments load some of them in any case."""


def loaded(*words: str) -> set[str]:
    """The modules that a command leaves loaded, the parts of the library by their package alone."""
    done = subprocess.run([sys.executable, "-c", PROGRAM, *words], cwd=ROOT, capture_output=True, text=True, check=True)
    code, *names = done.stdout.splitlines()[-1].split()
    assert code == "0", done.stderr
    return {name if name.startswith("spooltop") else name.partition(".")[0] for name in names}


@pytest.fixture(scope="module")
def spool(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A spool with waiting messages, a claim of our own, a foreign one, both of processes that have exited, and a cursor."""
    world = SpoolWorld(tmp_path_factory.mktemp("loaded"))
    world.cursors()
    for number in range(20):
        world.put(f"{message_id(number)},s=mail")
    world.claim_dead()
    world.claim_foreign("1795222801446548.4290.vm")
    return world.path


@pytest.mark.early
@pytest.mark.parametrize("words", ["-h", "--version", "help", "version"])
def test_help_loads_no_part_that_looks(words: str) -> None:
    found = loaded(words)
    assert found & HEAVY == set()
    assert not any(name.startswith(("spooltop.operate", "spooltop.control", "spooltop.tui")) for name in found)


@pytest.mark.parametrize("words", ["status", "status --json", "cursors", "locks", "tickets", "ls"])
def test_a_look_loads_no_library_that_it_does_not_need(spool: Path, words: str) -> None:
    assert loaded(*words.split(), str(spool)) & HEAVY == set()


def test_a_put_and_a_change_load_neither_openssl_nor_sockets(world: SpoolWorld) -> None:
    path = str(world.path)
    found = loaded("put", path, __file__)
    assert not any(name.startswith(("spooltop.operate", "spooltop.control")) for name in found)
    for words in (["inject", path, "--text", "canary {n}"], ["hold", path, "ALL"], ["requeue", path, "ALL", "--box", "held"]):
        assert loaded(*words, "--yes") & HEAVY == set()
    assert loaded("ops", path) & HEAVY == loaded(path) & HEAVY == set()
