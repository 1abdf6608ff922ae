"""Cursors on the command line: set, mute, and who has a file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from spooltop.engine import CursorFile, Spool
from spooltop.errors import CursorUnreadable, UsageError

from .streams import Done, spooltop, start


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    path = tmp_path / "spool"
    Spool.create(path).close()
    (path / "cursors.json").write_text('{"imessage": 89632, "email": "7", "odd=": {"last_id": 3, "n": "x"}}')
    return path


def cursors(path: Path) -> dict[str, object]:
    found: dict[str, object] = json.loads((path / "cursors.json").read_text())
    return found


def test_a_plan_then_the_value_then_back(spool: Path) -> None:
    shown = spooltop("cursors", spool, "--set", "imessage=89640", "--dry-run")
    assert shown.code == 0
    assert f"imessage: 89632 → 89640 in {spool}/cursors.json" in shown.out
    assert "note: the value is an integer" in shown.out
    assert cursors(spool)["imessage"] == 89632
    done = spooltop("cursors", spool, "--set", "imessage=89640", "--yes", "--json")
    thing = json.loads(done.out)
    assert (done.code, thing["done"], cursors(spool)["imessage"]) == (0, 1, 89640)
    assert "box" not in thing["items"][0]
    back = spooltop(*thing["undo"][1:], "--yes")
    assert (back.code, cursors(spool)["imessage"]) == (0, 89632)


def test_it_asks_on_a_terminal_and_refuses_without_one(spool: Path) -> None:
    refused = spooltop("cursors", spool, "--set", "imessage=89640")
    assert (refused.code, "--yes" in refused.err) == (3, True)
    left = spooltop("cursors", spool, "--set", "imessage=89640", stdin=b"n\n", tty=True)
    assert left.code == 3
    assert cursors(spool)["imessage"] == 89632
    assert spooltop("cursors", spool, "--set", "imessage=89640", stdin=b"y\n", tty=True).code == 0
    assert cursors(spool)["imessage"] == 89640


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
@pytest.mark.parametrize("tty", [False, True])
def test_a_number_stays_a_number(spool: Path, word: str, tty: bool) -> None:
    before = (spool / "cursors.json").read_bytes()
    for more in (["--yes"], ["--yes=1"], []):
        done = spooltop("cursors", spool, "--set", f"imessage={word}", *more, stdin=b"y\n", tty=tty)
        said = " ".join(done.err.split())
        assert (done.code, "its type would change from an integer to " in said, "--force sets it" in said) == (3, True, True)
    assert (spool / "cursors.json").read_bytes() == before
    left = spooltop("cursors", spool, "--set", f"imessage={word}", "--force", stdin=b"y\n", tty=True)
    assert (left.code, (spool / "cursors.json").read_bytes()) == (3, before), "its number is typed"
    assert spooltop("cursors", spool, "--set", f"imessage={word}", "--force", stdin=b"1\n", tty=True).code == 0
    assert cursors(spool)["imessage"] == (word if word == "hello" else json.loads(word))


def test_the_command_of_the_plan_does_the_same(spool: Path) -> None:
    plan = json.loads(spooltop("cursors", spool, "--set", r"odd\x3d=4", "--dry-run", "--json").out)
    assert spooltop(*plan["command"][1:], "--yes").code == 0
    assert cursors(spool)["odd="] == {"last_id": 4, "n": "x"}


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("--set", "imessage"), 2, "not SOURCE=VALUE"),
        (("--set", "=5"), 2, "not SOURCE=VALUE"),
        (("--set", "signal=5", "--yes"), 3, "has no signal; it has email, imessage"),
        (("--set", "imessage=89632", "--yes"), 3, "it is 89632 already"),
        (("--set", "imessage=x", "--type", "json", "--yes"), 2, "is not JSON"),
        (("--set", "imessage=5", "--file", "/etc/passwd", "--yes"), 2, "no cursor file here"),
        (("--set", "imessage=5", "--mute", "email"), 2, "together"),
        (("--yes",), 2, "go with --set"),
        (("--mute", "imessage=0"), 2, "a mute has an end"),
        (("--mute", "imessage=soon"), 2, "soon"),
        (("--mute", "=1h"), 2, "which source?"),
    ],
)
def test_words_that_make_no_sense(spool: Path, words: tuple[str, ...], code: int, says: str) -> None:
    before = cursors(spool)
    done = spooltop("cursors", spool, *words)
    assert (done.code, says in done.err) == (code, True), done.err
    assert cursors(spool) == before


def test_read_only_is_read_only(spool: Path) -> None:
    assert spooltop("--read-only", "cursors", spool, "--set", "imessage=5", "--yes").code == 3
    assert cursors(spool)["imessage"] == 89632


def in_state(spool: Path, *words: str) -> Done:
    """A process of its own, whose state lies beside the spool."""
    done = subprocess.run(
        [sys.executable, "-m", "spooltop", *words], capture_output=True, text=True,
        env={**os.environ, "XDG_STATE_HOME": str(spool.parent / "state")},
    )  # fmt: skip
    return Done(done.returncode, done.stdout, done.stderr)


@pytest.mark.early
def test_muted_for_a_while(spool: Path) -> None:
    path = str(spool)
    muted = in_state(spool, "cursors", path, "--mute", "imessage=2h")
    assert (muted.code, muted.err) == (0, "")
    assert muted.out.startswith("imessage is muted until ")
    status = json.loads(in_state(spool, "status", path, "--json").out)
    assert list(status["muted"]) == ["imessage"]
    assert [problem["code"] for problem in status["problems"]] == ["muted"]
    assert status["cursors"]["imessage"]["value"] == 89632
    assert in_state(spool, "cursors", path, "--unmute", "imessage").code == 0
    again = in_state(spool, "cursors", path, "--unmute", "imessage")
    assert (again.code, "was not muted" in again.err) == (4, True)
    unknown = in_state(spool, "cursors", path, "--mute", "imesage")
    assert (unknown.code, "not among the cursors seen now (imessage, email, odd=)" in unknown.err) == (0, True)


def test_who_has_a_message(spool: Path) -> None:
    with Spool(spool) as queue:
        id = queue.put(b"x")
    (path,) = (spool / "new").iterdir()
    with open(path, "rb"):
        thing = json.loads(spooltop("show", spool, id, "--who", "--json").out)
        assert {"pid": os.getpid(), "how": "open for reading"}.items() <= thing["holders"][0].items()
        assert thing["box"] == "new"
        assert f"{os.getpid():>8}" in spooltop("show", spool, id, "--who").out
    assert json.loads(spooltop("show", spool, id, "--who", "--json").out)["holders"] == []
    assert spooltop("show", spool, id, "--who", "--raw").code == 2
    assert spooltop("show", spool, "nothing", "--who").code == 4


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


def test_cursors_alone_are_set_and_muted_without_a_spool(tmp_path: Path) -> None:
    file = tmp_path / "cursors.json"
    file.write_text('{"imessage": 5}')
    for path in (file, tmp_path):
        assert spooltop("cursors", path, "--set", "imessage=6", "--yes").code == 0
        assert spooltop("cursors", path, "--set", "imessage=5", "--yes").code == 0
        assert spooltop("cursors", path, "--mute", "imessage=1h").code == 0
    assert json.loads(spooltop("status", file, "--json").out)["cursors"]["imessage"]["value"] == 5


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
def test_the_largest_file_that_is_stored_is_shown_and_a_larger_one_is_refused(spool: Path, name: str) -> None:
    path = spool / name
    path.parent.mkdir(exist_ok=True)
    (spool / "cursors.json").unlink()
    file = CursorFile(path)
    value = {"cursor": 89632, "note": ""}
    file.advance("imessage", value)
    room = (4 << 20) - path.stat().st_size
    file.advance("imessage", {**value, "note": "x" * room})
    assert path.stat().st_size == 4 << 20
    shown = json.loads(spooltop("status", spool, "--json").out)["cursors"]["imessage"]
    assert (shown["value"]["cursor"], shown["verdict"]) == (89632, "new")
    before = path.read_bytes()
    with pytest.raises(UsageError, match="4,194,305 bytes, and 4 MB is the most"):
        file.advance("imessage", {**value, "note": "x" * (room + 1)})
    assert path.read_bytes() == before and file.read()["imessage"] == json.loads(before).get("imessage", json.loads(before))
    with path.open("ab") as grown:  # by another hand
        grown.write(b"\n")
    shown = json.loads(spooltop("status", spool, "--json").out)["cursors"]
    assert "over 4 MB, not read" in str(shown)
    with pytest.raises(CursorUnreadable, match="over 4 MB, not read"):
        file.advance("imessage", 5)
