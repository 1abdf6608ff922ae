"""Muted sources: what they take out of the list, for how long, and where they are kept."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from spooltop.control import open_control
from spooltop.engine import Spool
from spooltop.errors import Refused, Unreadable, UsageError
from spooltop.model.cursors.state import Cursor
from spooltop.model.look.problem import Problem, Severity
from spooltop.model.look.snapshot import Rates, Snapshot
from spooltop.observe.mutes import LONGEST, MuteFile, apply_mutes, state_folder

from ..clock import Clock
from .observations import T0, look


def problem(code: str, source: str) -> Problem:
    return Problem(code, Severity.CRITICAL, f"{source} {code}", 1, view="cursors", subject=source)


def snapshot(*problems: Problem, shared: bool = True) -> Snapshot:
    cursors = tuple(
        Cursor(source, 5, "5", "reverted", "reverted", "/c.json", shared)
        for source in dict.fromkeys(problem.subject or "" for problem in problems)
    )
    return Snapshot(look(0), Rates(), cursors, problems)


def test_its_cursor_problems_go_and_one_line_says_so_last() -> None:
    blind = Problem("blind", Severity.CRITICAL, "new cannot be listed")
    rest = (problem("cursor-reverted", "email"), problem("unsafe-writer", "imessage"))
    before = snapshot(blind, problem("cursor-reverted", "imessage"), problem("cursor-stalled", "imessage"), *rest)
    after = apply_mutes(before, {"imessage": T0 + 3600})
    assert [line.code for line in after.problems] == ["blind", "cursor-reverted", "unsafe-writer", "muted"]
    assert after.problems[-1].severity is Severity.NOTE
    assert after.problems[-1].subject == "imessage"
    assert after.problems[-1].text.startswith("muted: imessage until ")
    assert after.muted == {"imessage": T0 + 3600}
    assert after.cursors == before.cursors
    assert apply_mutes(before, {"imessage": T0}) == before, "its end has come"


def test_the_end_has_a_date_where_it_is_not_today() -> None:
    (line,) = apply_mutes(snapshot(), {"a": T0 + 60, "b": T0 + 90_000}).problems
    first, second = line.text.removeprefix("muted: ").split(", ")
    assert len(first) == len("a until 02:41")
    assert len(second) == len("b until 2026-11-22 03:41")
    assert line.count == 2
    (line,) = apply_mutes(snapshot(), {"a\x1b[31m": T0 + 60}).problems
    assert line.text.isprintable()


@pytest.mark.parametrize("shared", [True, False])
def test_a_shared_file_that_does_not_parse_is_not_one_sources_trouble(shared: bool) -> None:
    before = snapshot(problem("cursor-unreadable", "imessage"), shared=shared)
    codes = [line.code for line in apply_mutes(before, {"imessage": T0 + 60}).problems]
    assert codes == (["cursor-unreadable", "muted"] if shared else ["muted"])


def test_kept_for_this_target_and_until_its_end(tmp_path: Path, clock: Clock) -> None:
    mutes = MuteFile(str(tmp_path / "state" / "spooltop"), "/var/spool/memex", clock=clock)
    assert mutes.ends() == ({}, "")
    end = mutes.set("imessage", 3600)
    assert end == clock() + 3600
    again = MuteFile(str(tmp_path / "state" / "spooltop"), "/var/spool/memex", clock=clock)
    other = MuteFile(str(tmp_path / "state" / "spooltop"), "/var/spool/other", clock=clock)
    assert again.ends() == ({"imessage": end}, "")
    assert other.ends() == ({}, "")
    other.set("teams", 60)
    again.set("email", 7200)
    assert mutes.ends()[0] == {"imessage": end, "email": clock() + 7200}
    clock.advance(3600)
    assert mutes.drop("email")
    assert not mutes.drop("email")
    assert mutes.ends() == ({}, "")
    assert (tmp_path / "state" / "spooltop").stat().st_mode & 0o077 == 0
    assert sorted(os.listdir(tmp_path / "state" / "spooltop")) == [".mutes.lock", "mutes.json"]


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf"), LONGEST + 1])
def test_a_mute_has_an_end(tmp_path: Path, clock: Clock, seconds: float) -> None:
    with pytest.raises(UsageError):
        MuteFile(str(tmp_path), "/s", clock=clock).set("a", seconds)


@pytest.mark.parametrize("content", ["{", "[]", '{"schema": 2}', '{"schema": 1, "targets": {"/s": {"a": "soon"}}}', "[" * 20_000])
def test_a_broken_file_is_one_line_and_is_kept(tmp_path: Path, clock: Clock, content: str) -> None:
    file = tmp_path / "mutes.json"
    file.write_text(content)
    mutes = MuteFile(str(tmp_path), "/s", clock=clock)
    ends, problem = mutes.ends()
    assert ends == {}
    assert str(file) in problem
    (line,) = apply_mutes(snapshot(), ends, problem).problems
    assert (line.code, line.severity) == ("muted", Severity.NOTE)
    with pytest.raises(Unreadable, match="left as it is"):
        mutes.set("a", 60)
    with pytest.raises(Unreadable, match="left as it is"):
        mutes.drop("a")
    assert file.read_text() == content
    file.unlink()
    assert mutes.ends() == ({}, "")


def test_no_place_to_keep_it_is_said(tmp_path: Path, clock: Clock) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "locked" / ".mutes.lock").mkdir(parents=True)
    for folder in (None, str(tmp_path / "file" / "spooltop"), str(tmp_path / "locked")):
        mutes = MuteFile(folder, "/s", clock=clock)
        assert mutes.ends() == ({}, "")
        with pytest.raises(Refused, match="mute: "):
            mutes.set("a", 60)
    os.mkfifo(tmp_path / "mutes.json")
    assert "not a file of mutes" in MuteFile(str(tmp_path), "/s", clock=clock).ends()[1]


@pytest.mark.parametrize(
    ("settings", "folder"),
    [
        ({"XDG_STATE_HOME": "/s", "HOME": "/home/ann"}, "/s/spooltop"),
        ({"XDG_STATE_HOME": "relative", "HOME": "/home/ann"}, "/home/ann/.local/state/spooltop"),
        ({"HOME": "/home/ann"}, "/home/ann/.local/state/spooltop"),
        ({}, None),
    ],
)
def test_where_it_is_kept(settings: dict[str, str], folder: str | None) -> None:
    assert state_folder(settings) == folder


MUTE = """
import sys
from spooltop.observe.mutes import MuteFile
mutes = MuteFile(sys.argv[1], "/s", clock=lambda: 1000.0)
for n in range(20):
    mutes.set(f"{sys.argv[2]}{n}", 60)
"""


def test_two_who_mute_at_once_both_have_it(tmp_path: Path) -> None:
    folder = str(tmp_path / "spooltop")
    both = [subprocess.Popen([sys.executable, "-c", MUTE, folder, name]) for name in "ab"]
    assert [process.wait() for process in both] == [0, 0]
    assert len(MuteFile(folder, "/s", clock=lambda: 1000.0).ends()[0]) == 40


def test_a_look_leaves_it_out_and_nothing_is_written_into_the_spool(tmp_path: Path, clock: Clock) -> None:
    Spool.create(tmp_path / "spool").close()
    file = tmp_path / "spool" / "cursors.json"
    file.write_text('{"imessage": 9}')
    before = sorted(os.listdir(tmp_path / "spool"))
    settings = {"XDG_STATE_HOME": str(tmp_path / "state")}
    (tmp_path / "by-link").symlink_to(tmp_path / "spool")
    with open_control(str(tmp_path / "spool"), settings=settings, watch=False, clock=clock) as control:
        control.look()
        file.write_text('{"imessage": 10}')
        control.look()
        file.write_text('{"imessage": 3}')
        assert [line.code for line in control.look().problems] == ["cursor-rewound"]
        with open_control(str(tmp_path / "by-link"), settings=settings, watch=False, clock=clock) as other:
            end = other.mute("imessage", 60)
        found = control.look()
        assert [line.code for line in found.problems] == ["muted"]
        assert found.muted == {"imessage": end}
        assert found.cursors[0].verdict == "rewound"
        assert control.unmute("imessage")
        assert [line.code for line in control.look().problems] == ["cursor-rewound"]
    assert sorted(os.listdir(tmp_path / "spool")) == before
    assert json.loads((tmp_path / "state" / "spooltop" / "mutes.json").read_text())["targets"] == {}
