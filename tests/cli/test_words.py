"""Text of the command line: commands, options, help, usage errors."""

from __future__ import annotations

import re
from importlib import metadata
from pathlib import Path

import pytest

from spooltop import __version__
from spooltop.cli.parser import COMMANDS, command_of
from spooltop.cli.versions import installed, missing
from spooltop.engine import Spool

from .streams import finish, spooltop

WITHOUT_A_PATH = ("completion", "config", "help", "layouts", "version")


def one_line(text: str) -> bool:
    return bool(re.fullmatch(r"spooltop: [^\n]+\n", text))


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_has_help_with_an_example(name: str) -> None:
    done = spooltop(name, "-h")
    assert done.code == 0
    assert f"usage: spooltop {name}" in done.out
    assert re.search(rf"example:\n(.*\n)?.*spooltop {name} (--dir )?/", done.out) or name in WITHOUT_A_PATH
    assert spooltop("help", name).out == done.out


@pytest.mark.parametrize("words", [["-h"], ["--help"]])
def test_help_names_every_command(words: list[str]) -> None:
    done = spooltop(*words)
    assert done.code == 0
    for name in COMMANDS:
        assert f"\n  {name} " in done.out


@pytest.mark.parametrize("words", [["-h"], *([name, "-h"] for name in COMMANDS)], ids=" ".join)
def test_help_fits_a_terminal_of_80_columns(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    text, _, _ = spooltop(*words).out.partition("example:\n")  # an example is copied, so it keeps its line
    assert [line for line in text.splitlines() if len(line) > 80] == []


def test_help_has_no_colours_of_the_parsers_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b" not in spooltop("requeue", "-h", tty=True).out


def test_help_is_a_command() -> None:
    assert spooltop("help").out == spooltop("-h").out
    done = spooltop("help", "statsu")
    assert (done.code, done.err) == (2, "spooltop: unknown command 'statsu'; did you mean spooltop help status?\n")


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


def test_version_of_packages_that_are_missing_or_come_from_the_distribution(tmp_path: Path) -> None:
    for name in ("psutil-5.9.4.egg-info", "prometheus_client-0.20.0-py3.11.egg-info", "other-1.dist-info", "redis-x.txt"):
        (tmp_path / name).touch()
    (tmp_path / "later").mkdir()
    (tmp_path / "later" / "psutil-7.0.0.dist-info").mkdir()
    folders = [str(tmp_path / "gone.zip"), str(tmp_path), str(tmp_path / "later")]
    found = installed(("psutil", "prometheus_client", "redis"), folders)
    assert found == {"psutil": "5.9.4", "prometheus_client": "0.20.0"}
    assert missing("redis") == "not installed: pip install '.[redis]' in the checkout"


@pytest.mark.parametrize(
    "words",
    [
        ["ls", "x", "--box", "nowhere"],
        ["ls", "x", "--bo", "new"],
        ["ls", "x", "--filter", "age:soon"],
        ["ls", "x", "--older-than", "soon"],
        ["ls", "x", "bad\\escape"],
        ["show", "x"],
        ["requeue", "x"],
        ["requeue", "x", "--box", "rejected"],
        ["requeue", "x", "ALL", "id"],
        ["requeue", "x", "--box", "new", "ALL"],
        ["requeue"],
        ["purge", "x"],
        ["purge", "x", "ALL"],
        ["undo", "x"],
        ["work", "x"],
        ["work", "x", "--"],
        ["work", "x", "--jobs", "0", "--", "true"],
        ["work", "x", "--", "no-such-command-here"],
        ["put", "x", "--id", "i", "a", "b"],
        ["inject", "x", "--text", "a", "--size", "1"],
        ["--theme", "green", "x"],
        ["one", "two"],
        ["--no-such-option", "x"],
    ],
)
def test_words_that_make_no_sense_are_one_line_and_exit_2(words: list[str]) -> None:
    done = spooltop(*words)
    assert (done.code, done.out) == (2, "")
    assert one_line(done.err)


def test_a_command_that_is_misspelt_is_named() -> None:
    assert "did you mean spooltop requeue" in spooltop("requeu", "x").err


def test_options_may_stand_before_the_command() -> None:
    command, rest = command_of(["--as", "spool", "--json", "status", "x"])
    assert command is COMMANDS["status"]
    assert rest == ["--as", "spool", "--json", "x"]


@pytest.mark.parametrize("words", [["./status"], ["--", "status"], ["--theme", "dark", "/x", "status"], []])
def test_a_path_is_no_command(words: list[str]) -> None:
    assert command_of(words)[0] is None


def test_a_place_that_is_no_spool_exits_5_in_one_line(tmp_path: Path) -> None:
    for words in (["status", tmp_path], [tmp_path], ["ls", tmp_path], ["put", tmp_path], ["requeue", tmp_path, "ALL"]):
        done = spooltop(*words)
        assert (done.code, done.out) == (5, "")
        assert one_line(done.err)
        assert f"spooltop init {tmp_path}" in done.err
    assert list(tmp_path.iterdir()) == []


def test_no_path_in_a_place_that_is_no_spool_is_a_usage_error(tmp_path: Path) -> None:
    done = finish([], cwd=tmp_path, env={"PYTHONPATH": str(Path(__file__).parents[2])})
    assert (done.code, done.out) == (2, "")
    assert one_line(done.err)


def test_undo_has_no_force() -> None:
    done = spooltop("undo", "x", "7f3a", "--force")
    assert done.code == 2 and one_line(done.err)


@pytest.mark.parametrize("words", [["--sort", "x"], ["--filter", "pidd:3"]])
def test_an_opening_that_makes_no_sense_is_refused_without_a_terminal_too(words: list[str], tmp_path: Path) -> None:
    Spool.create(tmp_path / "s").close()
    done = spooltop(tmp_path / "s", *words)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
