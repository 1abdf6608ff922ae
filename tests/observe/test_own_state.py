"""What a user's own state keeps of each target: muted sources, and the view and orders of the dashboard."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from spooltop.control import Control, open_control
from spooltop.engine.files import read_small
from spooltop.errors import Refused, Unreadable, UsageError
from spooltop.model.backend import KeptView, Sort
from spooltop.model.snapshot import Severity
from tests.builders import CursorWorld
from tests.clock import Clock
from tests.needs import needs

VIEW = KeptView("claims", {"cur": Sort("size", False), "consumers": Sort("name", True)}, "age:>1m é\n\udcff")
DAY = 86_400.0


@pytest.fixture
def world(tmp_path: Path) -> Iterator[CursorWorld]:
    with CursorWorld(tmp_path) as made:
        yield made


@pytest.fixture
def folder(world: CursorWorld) -> Path:
    """The directory of this user's own state, which is there already."""
    (world.state / "spooltop").mkdir(parents=True)
    return world.state / "spooltop"


def codes(control: Control) -> list[str]:
    return [problem.code for problem in control.look().problems]


def test_the_cursor_problems_of_a_muted_source_go_and_one_line_says_so_last(world: CursorWorld, clock: Clock) -> None:
    before = sorted(os.listdir(world.path))
    link = world.path.parent / "by-link"
    link.symlink_to(world.path)
    with world.control(clock=clock) as control, open_control(str(link), settings=world.settings, clock=clock) as other:
        for imessage, mail in ((5, 5), (6, 6), (3, 2)):
            world.cursors(imessage=imessage, mail=mail)
            seen = control.look()
        assert codes(control) == ["cursor-rewound"] * 2
        end = other.mute("imessage\x1b", 60), other.mute("imessage", 3600)
        assert end == (clock() + 60, clock() + 3600)
        muted = control.look()
        assert [(problem.code, problem.subject) for problem in muted.problems[:-1]] == [("cursor-rewound", "mail")]
        line = muted.problems[-1]
        assert (line.code, line.severity, line.count) == ("muted", Severity.NOTE, 2) and line.text.isprintable()
        assert muted.muted == {"imessage": end[1], "imessage\x1b": end[0]}
        assert {cursor.verdict for cursor in muted.cursors} == {cursor.verdict for cursor in seen.cursors} == {"rewound"}
        clock.advance(60)
        assert control.look().problems[-1].subject == "imessage"
        clock.advance(3540)
        assert codes(control) == ["cursor-rewound"] * 2, "its end has come"
        other.mute("imessage", 60)
        assert control.unmute("imessage") and not control.unmute("imessage") and codes(control) == ["cursor-rewound"] * 2
    assert sorted(os.listdir(world.path)) == before
    kept = world.state / "spooltop"
    assert sorted(os.listdir(kept)) == [".mutes.lock", "mutes.json"] and kept.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(("name", "left"), [("cursors.json", ["cursor-unreadable"]), ("cursors/imessage.json", [])])
def test_a_shared_file_that_does_not_parse_is_not_one_sources_trouble(world: CursorWorld, name: str, left: list[str]) -> None:
    (world.path / "cursors.json").unlink()
    world.write(name, "{")
    with open_control(str(world.path), watch=False, settings=world.settings) as control:
        assert codes(control) == ["cursor-unreadable"]
        control.mute("imessage", 60)
        assert codes(control) == [*left, "muted"]
        control.mute("imessage", 2 * DAY)
        assert re.search(r"imessage until \d{4}-\d\d-\d\d \d\d:\d\d\Z", control.look().problems[-1].text), "it does not end today"


def test_mutes_are_read_again_only_where_the_file_has_changed(
    world: CursorWorld, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[str] = []

    def counted(name: str, *arguments: Any, **options: Any) -> Any:
        reads.append(name)
        return read_small(name, *arguments, **options)

    with world.control(clock=clock) as control, world.control(clock=clock) as other:
        end = other.mute("mail", 60)
        control.look()
        monkeypatch.setattr("spooltop.observe.own_state.read_small", counted)
        assert control.look().muted == {"mail": end} and "mutes.json" not in reads
        later = other.mute("mail", 120)
        assert control.look().muted == {"mail": later} and "mutes.json" in reads


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf"), 366 * DAY + 1])
def test_a_mute_has_an_end(world: CursorWorld, seconds: float) -> None:
    with world.control() as control, pytest.raises(UsageError):
        control.mute("a", seconds)


@pytest.mark.parametrize("content", ["{", "[]", '{"schema": 2}', '{"schema": 1, "targets": {"/s": {"a": "soon"}}}', "[" * 20_000])
def test_a_broken_file_of_mutes_is_one_line_and_is_kept(world: CursorWorld, folder: Path, content: str) -> None:
    file = folder / "mutes.json"
    file.write_text(content)
    with world.control() as control:
        (line,) = control.look().problems
        assert (line.code, line.severity) == ("muted", Severity.NOTE) and str(file) in line.text
        for change in (lambda: control.mute("a", 60), lambda: control.unmute("a")):
            with pytest.raises(Unreadable, match="left as it is"):
                change()
        assert file.read_text() == content
        file.unlink()
        assert codes(control) == []
        os.mkfifo(file)
        assert "not a file of mutes" in control.look().problems[0].text


@pytest.mark.parametrize("place", ["", "/proc/1", "a file"])
def test_without_a_place_nothing_is_kept_and_only_a_mute_says_so(world: CursorWorld, place: str) -> None:
    world.state.touch()
    settings = {"XDG_STATE_HOME": str(world.state) if place == "a file" else place}
    with world.control(settings=settings) as control:
        assert control.look().muted == {}
        with pytest.raises(Refused, match="mute: "):
            control.mute("a", 60)
        assert control.kept_view() == KeptView() and not control.keep_view(VIEW)
    world.state.unlink()


MUTE = """
import sys
from spooltop.control import open_control
with open_control(sys.argv[1], watch=False, settings={"XDG_STATE_HOME": sys.argv[2]}) as control:
    for n in range(20):
        control.mute(f"{sys.argv[3]}{n}", 60)
"""


def test_two_who_mute_at_once_both_have_it(world: CursorWorld) -> None:
    both = [subprocess.Popen([sys.executable, "-c", MUTE, world.path, world.state, name]) for name in "ab"]
    assert [process.wait() for process in both] == [0, 0]
    with world.control() as control:
        assert len(control.look().muted) == 40


def test_what_is_kept_is_of_this_target_only_under_its_real_path(world: CursorWorld, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(world.path)
    with open_control(str(tmp_path / "link"), watch=False, read_only=True, settings=world.settings) as control:
        assert control.kept_view() == KeptView() and control.keep_view(VIEW)
    with world.control() as control:
        assert control.kept_view() == VIEW
    with CursorWorld(tmp_path / "other") as other, other.control(settings=world.settings) as control:
        assert control.kept_view() == KeptView() and control.mute("teams", 60)
    with world.control() as control:
        assert control.look().muted == {}
    folder = world.state / "spooltop"
    assert folder.stat().st_mode & 0o777 == 0o700 and (folder / "views.json").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "data",
    [b"", b"\xff", b"[" * 100_000, b"[]", b'{"schema": 2, "targets": {"/x": {"view": "new"}}}', b'{"schema": 1, "targets": [1]}',
     b'{"schema": 1, "targets": {"/x": 7}}', b'{"schema": 1, "targets": {"/x": {"view": 1, "sorts": [], "last_filter": {}}}}',
     b'{"schema": 1, "targets": {"/x": {"sorts": {"cur": 1}}}}', b'{"schema": 1, "targets": {}}' + b" " * (2 << 20) + b"x"],
    ids=range(10),
)  # fmt: skip
def test_views_that_cannot_be_read_are_ignored_and_replaced(world: CursorWorld, folder: Path, data: bytes) -> None:
    (folder / "views.json").write_bytes(data.replace(b"/x", os.fsencode(world.path)))
    with world.control() as control:
        assert control.kept_view() == KeptView() and control.keep_view(VIEW) and control.kept_view() == VIEW


def test_an_order_that_was_kept_as_a_word_is_still_read(world: CursorWorld, folder: Path) -> None:
    data = b'{"schema": 1, "targets": {"/x": {"view": "claims", "sorts": {"cur": "size", "new": "-held"}}}}'
    (folder / "views.json").write_bytes(data.replace(b"/x", os.fsencode(world.path)))
    with world.control() as control:
        assert control.kept_view() == KeptView("claims", {"cur": Sort("size", False), "new": Sort("held")})


def test_a_link_or_a_fifo_in_its_place_is_not_followed(world: CursorWorld, folder: Path) -> None:
    with world.control() as control:
        control.keep_view(VIEW)
        (folder / "views.json").rename(folder / "elsewhere")
        (folder / "views.json").symlink_to("elsewhere")
        assert control.kept_view() == KeptView()
        (folder / "views.json").unlink()
        os.mkfifo(folder / "views.json")
        assert control.kept_view() == KeptView()


@needs("root")
def test_a_folder_of_another_user_is_neither_trusted_nor_written_nor_made(world: CursorWorld, folder: Path) -> None:
    with world.control() as control:
        control.keep_view(VIEW)
        os.chown(folder, 1000, 1000)
        before = sorted(os.listdir(folder))
        assert control.kept_view() == KeptView() and not control.keep_view(KeptView("new"))
        assert sorted(os.listdir(folder)) == before
        os.chown(folder, 0, 0)
        assert control.kept_view() == VIEW
    os.chown(world.state, 1000, 1000)
    with world.control(settings={"XDG_STATE_HOME": str(world.state / "home")}) as control:
        assert not control.keep_view(VIEW) and not (world.state / "home").exists()
