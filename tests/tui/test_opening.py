"""What the dashboard opens with: a view, a filter and an order given on the command line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from spooltop.errors import UsageError
from spooltop.model.backend import Sort
from spooltop.model.vocabulary import Verdict
from spooltop.settings import from_environ
from tests.cli.streams import spooltop

from .driving import Options, dashboard
from .fake import NOW, FakeControl, a_cursor, claim, waiting


async def test_a_view_with_a_filter_and_an_order_is_opened() -> None:
    control = FakeControl([claim(1), *(waiting(n, source="mail" if n % 2 else "bot") for n in range(10))])
    options = Options(view="new", filter="src:ma*", sort=Sort("size", descending=False))
    async with dashboard(control, options=options) as driver:
        await driver.see("New 5 of 10 match src:ma*", "sorted by size ↑")
        await driver.press("3")
        await driver.see("Claims 1", "sorted by verdict")  # no such column there
        await driver.walk(("2 escape", "New 10 · sorted by size ↑"))


async def test_a_filter_of_cursors_is_opened() -> None:
    control = FakeControl()
    control.cursors = (a_cursor(), a_cursor("email", "advancing"))
    async with dashboard(control, options=Options(view="cursors", filter="verdict:advancing")) as driver:
        await driver.see("/verdict:advancing   Esc clears the filter", "email")
        assert "imessage" not in driver.text


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--sort", "colour"], "invalid order 'colour'; write COLUMN, or COLUMN:desc; columns are age,"),
        (["--sort", "age:up"], "invalid order 'age:up'"),
        (["--filter", "owner:bob"], "unknown key owner:; keys are age: src:"),
        (["--view", "tmp", "--filter", "verdict:gone"], "unknown verdict 'gone'"),
        (["--view", "mail"], "invalid choice: 'mail'"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_opened(tmp_path: Path, words: list[str], said: str) -> None:
    spooltop("init", tmp_path / "s")
    done = spooltop(tmp_path / "s", *words, tty=True)
    assert done.code == 2 and said in done.err and "42" not in done.out
    assert spooltop(tmp_path / "s", "--sort", "age", "--filter", "src:x", tty=True).code == 42


@pytest.mark.parametrize(
    ("environ", "ascii", "colour"),
    [
        ({"TERM": "xterm-256color", "LANG": "de_DE.UTF-8"}, False, True), ({"TERM": "xterm", "LANG": "C"}, True, True),
        ({"TERM": "xterm", "LANG": "C", "LC_ALL": "en_US.UTF-8"}, False, True),
        ({"TERM": "linux", "LANG": "en_US.UTF-8"}, True, True), ({"TERM": "xterm", "NO_COLOR": "1"}, False, False),
        ({"TERM": "xterm", "NO_COLOR": ""}, False, True),
    ],
)  # fmt: skip
def test_options_follow_the_environment(environ: dict[str, str], ascii: bool, colour: bool) -> None:
    options = Options.of(environ)
    assert (options.ascii, options.colour) == (ascii, colour)


def test_the_mouse_is_a_setting() -> None:
    assert from_environ({}).mouse and from_environ({"SPOOLTOP_MOUSE": "1"}).mouse
    assert not from_environ({"SPOOLTOP_MOUSE": "0"}).mouse and not from_environ({"SPOOLTOP_MOUSE": "false"}).mouse
    with pytest.raises(UsageError, match="write SPOOLTOP_MOUSE=0"):
        _ = from_environ({"SPOOLTOP_MOUSE": "maybe"}).mouse


async def test_claims_open_with_the_dead_then_by_how_long_they_are_held() -> None:
    held = {1: 50.0, 2: 90.0, 3: 90.0, 4: 10.0, 5: None, 6: 70.0}
    verdicts = {4: Verdict.ALIVE, 6: Verdict.UNKNOWN}
    rows = [
        claim(n, verdicts.get(n, Verdict.DEAD), in_box_since=None if age is None else NOW - age) for n, age in held.items()
    ]  # fmt: skip
    async with dashboard(FakeControl(rows), options=Options(view="claims")) as driver:
        await driver.see("Claims 6", "4304")
        assert re.findall(r"430(\d) worker", driver.text)[:6] == [*"321564"]
