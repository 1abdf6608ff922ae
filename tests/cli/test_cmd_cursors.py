"""Cursors on the command line, beyond what is recorded: values and their types, and files that are named or large."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from spooltop.engine import CursorFile
from spooltop.errors import CursorUnreadable, UsageError

from .streams import spooltop


@pytest.fixture(autouse=True)
def cursor_file(spool: Path) -> None:
    (spool / "cursors.json").write_text('{"imessage": 89632, "email": "7", "odd=": {"last_id": 3, "n": "x"}}')


def cursors(path: Path) -> dict[str, object]:
    found: dict[str, object] = json.loads((path / "cursors.json").read_text())
    return found


def test_a_name_with_a_sign_of_its_own_and_the_field_that_is_the_cursor(spool: Path) -> None:
    assert spooltop("cursors", spool, "--set", r"odd\x3d=4", "--yes").code == 0
    assert cursors(spool)["odd="] == {"last_id": 4, "n": "x"}


@pytest.mark.parametrize("word", ["hello", "null", '{"id": 1}'])
def test_a_number_stays_a_number_unless_it_is_forced_and_then_the_count_is_typed(spool: Path, word: str) -> None:
    before = (spool / "cursors.json").read_bytes()
    setting = ["cursors", str(spool), "--set", f"imessage={word}"]
    for words, tty in ((["--yes"], False), (["--yes=1"], True), ([], True)):
        done = spooltop(*setting, *words, stdin=b"y\n", tty=tty)
        said = " ".join(done.err.split())
        assert (done.code, "its type would change from an integer to " in said, "--force sets it" in said) == (3, True, True)
    for typed, code in ((b"y\n", 3), (b"1\n", 0)):
        assert (spool / "cursors.json").read_bytes() == before
        assert spooltop(*setting, "--force", stdin=typed, tty=True).code == code
    assert cursors(spool)["imessage"] == (word if word == "hello" else json.loads(word))


def test_a_source_in_two_files_is_shown_twice_and_set_where_it_is_said(spool: Path) -> None:
    (spool / "cursors").mkdir()
    (spool / "cursors" / "imessage.json").write_text("5")
    found = json.loads(spooltop("status", spool, "--json").out)["cursors"]
    assert {key: cursor["value"] for key, cursor in found.items()} == {
        "imessage@cursors.json": 89632, "email": "7", "odd=": {"last_id": 3, "n": "x"}, "imessage@cursors/imessage.json": 5,
    }  # fmt: skip
    assert spooltop("cursors", spool, "--set", "imessage=6", "--file", "cursors/imessage.json", "--yes").code == 2
    assert spooltop("cursors", spool, "--set", "imessage=6", "--file", "imessage.json", "--yes").code == 0
    assert ((spool / "cursors" / "imessage.json").read_text().strip(), cursors(spool)["imessage"]) == ("6", 89632)


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
