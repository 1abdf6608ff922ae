"""Cursors on the command line: values and their types, files and fields that are named, the past hour."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from spooltop.engine import CursorFile
from spooltop.errors import CursorUnreadable, UsageError

from .streams import spooltop, start


@pytest.fixture(autouse=True)
def cursor_file(spool: Path) -> None:
    (spool / "cursors.json").write_text('{"imessage": 89632, "email": "7", "odd=": {"last_id": 3, "n": "x"}}')


def cursors(path: Path) -> dict[str, object]:
    found: dict[str, object] = json.loads((path / "cursors.json").read_text())
    return found


@pytest.mark.parametrize(
    ("word", "more", "source", "value"),
    [
        ("email=8", (), "email", "8"),
        ("email=8", ("--type", "json"), "email", 8),
        ("imessage=tok", ("--type", "text"), "imessage", "tok"),
        ("imessage=tok", ("--force",), "imessage", "tok"),
        ("imessage=1e3", ("--type", "json"), "imessage", 1000.0),
        (r"odd\x3d=4", (), "odd=", {"last_id": 4, "n": "x"}),
        ("signal=1", ("--force",), "signal", 1),
    ],
)
def test_the_type_of_the_value(spool: Path, word: str, more: tuple[str, ...], source: str, value: object) -> None:
    assert spooltop("cursors", spool, "--set", word, "--yes", *more).code == 0
    assert cursors(spool)[source] == value


@pytest.mark.parametrize("word", ["hello", "1e3", "1.0", "null", "true", '"89640"', "[1]", '{"id": 1}'])
def test_a_number_stays_a_number(spool: Path, word: str) -> None:
    before = (spool / "cursors.json").read_bytes()
    setting = ["cursors", str(spool), "--set", f"imessage={word}"]
    for words, tty in ((["--yes"], False), (["--yes=1"], True), ([], True)):
        done = spooltop(*setting, *words, stdin=b"y\n", tty=tty)
        said = " ".join(done.err.split())
        assert (done.code, "its type would change from an integer to " in said, "--force sets it" in said) == (3, True, True)
    for typed, code in ((b"y\n", 3), (b"1\n", 0)):  # its number is typed
        assert (spool / "cursors.json").read_bytes() == before
        assert spooltop(*setting, "--force", stdin=typed, tty=True).code == code
    assert cursors(spool)["imessage"] == (word if word == "hello" else json.loads(word))


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("--set", "imessage=x", "--type", "json", "--yes"), 2, "is not JSON"),
        (("--set", "imessage=5", "--file", "/etc/passwd", "--yes"), 2, "no cursor file here"),
        (("--mute", "imessage=0"), 2, "a mute has an end"),
    ],
)
def test_words_that_make_no_sense(spool: Path, words: tuple[str, ...], code: int, says: str) -> None:
    before = cursors(spool)
    done = spooltop("cursors", spool, *words)
    assert (done.code, says in done.err) == (code, True), done.err
    assert cursors(spool) == before


def test_a_source_in_two_files_is_shown_twice(spool: Path) -> None:
    (spool / "cursors").mkdir()
    (spool / "cursors" / "imessage.json").write_text("5")
    found = json.loads(spooltop("status", spool, "--json").out)["cursors"]
    assert {key: one["value"] for key, one in found.items()} == {
        "imessage@cursors.json": 89632, "email": "7", "odd=": {"last_id": 3, "n": "x"}, "imessage@cursors/imessage.json": 5,
    }  # fmt: skip
    lines = [json.loads(line) for line in spooltop("cursors", spool, "--json").out.splitlines()]
    assert [one["value"] for one in lines if one["source"] == "imessage"] == [89632, 5]
    assert spooltop("cursors", spool, "--set", "imessage=6", "--file", "cursors/imessage.json", "--yes").code == 2
    assert spooltop("cursors", spool, "--set", "imessage=6", "--file", "imessage.json", "--yes").code == 0
    assert ((spool / "cursors" / "imessage.json").read_text().strip(), cursors(spool)["imessage"]) == ("6", 89632)


def test_the_writes_of_the_past_hour_are_told_row_by_row(spool: Path) -> None:
    file = CursorFile(spool / "cursors.json")
    for value in (89636, 89632):
        file.advance("imessage", value)
    line = json.loads(spooltop("cursors", spool, "--json").out.splitlines()[0])
    assert line["verdict"] == "rewound"
    assert [(one["value"], one["back"], one["lost_update"], one["in_journal"]) for one in line["history"]] == [
        (89632, True, False, True), (89636, False, False, True), (89632, False, False, False),
    ]  # fmt: skip
    assert [one["writer"]["pid"] for one in line["history"][:2]] == [os.getpid()] * 2


def test_a_setting_names_the_field_that_is_the_cursor(spool: Path) -> None:
    (spool / "cursors.json").write_text('{"imessage": {"id": 1, "seen": 7}, "email": {"id": 2}}')
    environ = {**os.environ, "SPOOLTOP_CURSOR_FIELD": "imessage=seen"}
    with start("cursors", spool, env=environ) as listing:
        lines = listing.communicate()[0].decode().splitlines()
    assert [line.split()[:2] for line in lines[1:]] == [["imessage", "7"], ["email", "2"]]
    with start("cursors", spool, "--set", "imessage=9", "--yes", env=environ) as setting:
        setting.communicate()
    assert cursors(spool)["imessage"] == {"id": 1, "seen": 9}


def test_cursor_files_are_named_by_an_option_or_a_setting(spool: Path, tmp_path: Path) -> None:
    other = tmp_path / "elsewhere"
    (other / "cursors").mkdir(parents=True)
    (other / "state.json").write_text('{"teams": 1}')
    (other / "cursors" / "email.json").write_text("2")
    files = [other / "state.json", other / "cursors" / "email.json", other / "none.json"]
    words = [word for file in files for word in ("--cursor-file", file)]
    found = json.loads(spooltop("status", spool, *words, "--json").out)
    assert {key: (one["value"], one["verdict"]) for key, one in found["cursors"].items()} == {
        "teams": (1, "new"), "email": (2, "new"), "none.json": (None, "unreadable"),
    }  # fmt: skip
    assert spooltop("cursors", spool, *words, "--set", "teams=5", "--yes").code == 0
    assert json.loads((other / "state.json").read_text()) == {"teams": 5}
    with start("cursors", spool, env={**os.environ, "SPOOLTOP_CURSOR_FILES": f"{other / 'state.json'}:{other}"}) as listing:
        lines = listing.communicate()[0].decode().splitlines()
    assert [line.split()[:2] for line in lines[1:]] == [["teams", "5"], ["email", "2"]]


@pytest.mark.parametrize("name", ["cursors.json", "cursors/imessage.json"], ids=["shared", "of one source"])
def test_the_largest_file_that_is_stored_is_shown_and_a_larger_one_is_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    file = CursorFile(path)
    file.advance("imessage", {"cursor": 89632, "note": ""})
    room = (4 << 20) - path.stat().st_size
    file.advance("imessage", {"cursor": 89632, "note": "x" * room})
    before = path.read_bytes()
    assert len(before) == 4 << 20
    shown = json.loads(spooltop("status", tmp_path, "--json").out)["cursors"]["imessage"]
    assert (shown["value"]["cursor"], shown["verdict"]) == (89632, "new")
    with pytest.raises(UsageError, match="4,194,305 bytes, and 4 MB is the most"):
        file.advance("imessage", {"cursor": 89632, "note": "x" * (room + 1)})
    assert path.read_bytes() == before
    with path.open("ab") as grown:  # by another hand
        grown.write(b"\n")
    assert "over 4 MB, not read" in spooltop("status", tmp_path, "--json").out
    with pytest.raises(CursorUnreadable, match="over 4 MB, not read"):
        file.advance("imessage", 5)
