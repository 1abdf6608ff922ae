"""Start and end of the dashboard: options, reasons for a plain report, lines printed on leaving, imports."""

from __future__ import annotations

import gc
import os
import subprocess
import sys

import pytest
from textual.strip import Strip

from spooltop.model.operations.plan import ItemResult, Outcome, Result
from spooltop.model.vocabulary import Action
from spooltop.tui import Options, why_no_dashboard
from spooltop.tui.terminal.lifecycle import goodbye, printable, shell, terminal_gone

from .driving import dashboard
from .fake import NOW, FakeControl, claim


@pytest.mark.parametrize(
    "environ, ascii, colour",
    [
        ({"TERM": "xterm-256color", "LANG": "de_DE.UTF-8"}, False, True),
        ({"TERM": "xterm", "LANG": "C"}, True, True),
        ({"TERM": "xterm", "LANG": "C.UTF-8"}, False, True),
        ({"TERM": "xterm", "LANG": "C", "LC_ALL": "en_US.UTF-8"}, False, True),
        ({"TERM": "linux", "LANG": "en_US.UTF-8"}, True, True),
        ({"TERM": "xterm", "NO_COLOR": "1"}, False, False),
        ({"TERM": "xterm", "NO_COLOR": ""}, False, True),
    ],
)
def test_options_follow_the_environment(environ: dict[str, str], ascii: bool, colour: bool) -> None:
    options = Options.of(environ)
    assert (options.ascii, options.colour) == (ascii, colour)


def test_a_plain_report_has_to_do_without_a_terminal() -> None:
    assert why_no_dashboard({"TERM": "xterm"}, terminal=True) is None
    assert why_no_dashboard({"TERM": "dumb"}, terminal=True) == "TERM=dumb cannot place a cursor"
    assert why_no_dashboard({}, terminal=True) is not None
    assert why_no_dashboard({"TERM": "xterm"}, terminal=False) is not None


def test_the_package_loads_no_textual_before_it_runs() -> None:
    code = "import sys, spooltop.tui, spooltop.tui.commands; sys.exit('textual' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_words_on_leaving_are_safe_to_print() -> None:
    items = [ItemResult("a", "a", Outcome.DONE), ItemResult("b", "b", Outcome.SKIPPED), ItemResult("c", "c", Outcome.FAILED)]
    result = Result("7f3a", Action.PURGE, "/sp", NOW, items, untried=2, undo=("spooltop", "undo", "/s p\x1b]0;x\x07", "7f3a"))
    (line,) = goodbye([result])
    assert line == ("7f3a: purged 1, skipped 1, failed 1, not reached 2; undo: spooltop undo '/s p\\x1b]0;x\\x07' 7f3a")
    assert printable("a\\x1b") == "a\\x1b"
    assert shell(("a b", "c")) == "'a b' c"


def test_a_terminal_that_went_away_is_noticed() -> None:
    master, slave = os.openpty()
    assert not terminal_gone(slave)
    os.close(master)
    os.close(slave)
    assert terminal_gone(slave)


@pytest.mark.parametrize("options", [Options(light=True), Options(colour=False), Options(view="claims")])
async def test_options_of_the_drawing(options: Options) -> None:
    async with dashboard(FakeControl([claim(1)]), options=options) as driver:
        await driver.see("17952228" if options.view == "claims" else "1 PROBLEM")
        assert driver.app.theme == ("ansi-light" if options.light else "ansi-dark")
        strips = driver.app.screen._compositor.render_strips()
        colours = {segment.style.color.name for strip in strips for segment in strip if segment.style and segment.style.color}
        if not options.colour:
            assert colours <= {"default"}


@pytest.mark.long
async def test_a_screen_that_was_left_leaves_nothing_behind_of_what_it_had_drawn() -> None:
    def drawn() -> int:
        gc.collect()
        return sum(isinstance(one, Strip) for one in gc.get_objects())

    async with dashboard(FakeControl()) as driver:
        counts = []
        for _ in range(4):
            await driver.walk(("question_mark", "more lines"))
            await driver.press("q")
            await driver.gone("more lines")
            counts.append(drawn())
        assert counts[-1] <= counts[0]
