"""Text of the command line: commands, options, help, usage errors."""

from __future__ import annotations

import re
from importlib import metadata
from pathlib import Path

import pytest

from spooltop import __version__
from spooltop.engine import Spool

from .streams import ROOT, commands, finish, spooltop

WITHOUT_A_PATH = ("completion", "config", "help", "layouts", "version")


def test_each_command_has_help_with_an_example_that_fits_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("FORCE_COLOR", "1")  # the parser's own colours are never wanted
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name in commands():
        shown = spooltop(name, "-h", tty=True).out
        text, _, example = shown.partition("example:\n")  # an example is copied, so it keeps its line
        assert re.search(rf"^(.*\n)?.*spooltop {name} (--dir )?/", example) or name in WITHOUT_A_PATH, name
        assert [line for line in text.splitlines() if len(line) > 80] == [] and "\x1b" not in shown


def test_version() -> None:
    assert spooltop("version").out == spooltop("--version").out
    first, *others = spooltop("--version").out.splitlines()
    assert first == f"spooltop {__version__}"
    assert [line.split()[0] for line in others] == [
        "python", "textual", "watchfiles", "psutil", "filelock", "redis", "prometheus_client", "Linux"
    ]
    for line in others[1:-1]:
        assert line.split()[1] == metadata.version(line.split()[0])
    assert others[-1].endswith(": renameat2 yes, OFD locks yes, inotify yes")


def test_version_of_packages_that_are_missing_or_of_the_distribution(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("psutil-5.9.4.egg-info", "prometheus_client-0.20.0-py3.11.egg-info", "other-1.dist-info", "redis-x.txt"):
        (tmp_path / name).touch()
    (tmp_path / "later").mkdir()
    (tmp_path / "later" / "psutil-7.0.0.dist-info").mkdir()
    monkeypatch.setattr("sys.path", [str(tmp_path / "gone.zip"), str(tmp_path), str(tmp_path / "later")])
    versions = dict(line.split(maxsplit=1) for line in spooltop("version").out.splitlines())
    assert (versions["psutil"], versions["prometheus_client"]) == ("5.9.4", "0.20.0")
    assert versions["redis"] == "not installed: pip install '.[redis]' in the checkout"


@pytest.mark.parametrize(
    "words",
    [
        "ls x --bo new", "ls x --filter age:soon", "ls x --older-than soon", "ls x bad\\escape", "show x", "requeue x",
        "requeue x --box rejected", "requeue x ALL id", "requeue x --box new ALL", "requeue", "purge x ALL", "undo x",
        "undo x 7f3a --force", "work x", "work x --", "work x --jobs 0 -- true", "work x -- no-such-command-here",
        "put x --id i a b", "inject x --text a --size 1", "inject x --file a --size 1", "--theme green x", "one two",
        "--no-such-option x", "hold x --box tmp i", "release x --box trash i", "restore x ALL", "restore x --box new i",
        "release x ALL --rate 0", "release x ALL --rate 5/day", "release x ALL --rate nan", "status x --watch 0",
        "cursors x --watch=-5", "consumers x --watch 0", "doctor x --watch 9e9d", "cursors x --watch 1s --mute a",
        "cursors x --set =5", "cursors x --mute =1h", "cursors x --set a=1 --mute b", "cursors x --yes", "show x i --who --raw",
        "metrics x --listen 9923 --textfile y", "metrics x --textfile y --every 0", "metrics x --textfile y --every soon",
        "bench x --seconds 1", "requeue x ALL --yes=", "requeue x ALL --yes=all", "requeue x ALL --yes=-1",
        "requeue x ALL --yes=1.0", "requeue x ALL --yes=٣", "requeue x ALL --yes=3 --yes=2", "bench x --seconds 99999",
        "bench x --seconds soon", "demo --redis --dir x --headless 0",
        "layouts form x", "layouts show", "layouts try x",
    ],
)  # fmt: skip
def test_words_that_make_no_sense_are_one_line_before_anything_is_opened(words: str) -> None:
    done = spooltop(*words.split())
    assert (done.code, done.out) == (2, "")
    assert re.fullmatch(r"spooltop: [^\n]+\n", done.err)


def test_options_may_stand_before_the_command_and_a_path_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Spool.create(tmp_path / "status").close()
    monkeypatch.chdir(tmp_path)
    assert spooltop("--as", "spool", "--json", "status", "./status").out.startswith('{"schema": 1, ')
    for words in (["./status"], ["--", "status"], ["--theme", "dark", "./status"]):
        assert spooltop(*words, tty=True).out == "dashboard\n", words
    for words in (["--sort", "x"], ["--filter", "pidd:3"]):
        done = spooltop("./status", *words)
        assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)


def test_no_path_or_a_misspelt_command_in_a_place_that_is_no_spool_is_a_usage_error(tmp_path: Path) -> None:
    env = {"PYTHONPATH": str(ROOT)}
    done = finish([], cwd=tmp_path, env=env)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert "did you mean the command: spooltop status?" in finish(["statu"], cwd=tmp_path, env=env).err
    (tmp_path / "statu").mkdir()
    assert "did you mean the command" not in finish(["statu"], cwd=tmp_path, env=env).err


def test_a_lock_is_removed_by_its_name_or_all_are(tmp_path: Path) -> None:
    Spool.create(tmp_path / "s").close()
    assert "ALL and names together" in spooltop("unlock", tmp_path / "s", "ALL", "x.lock", "--yes").err
    assert "ALL and names together" not in spooltop("unlock", tmp_path / "s", "ALL", "--yes").err
