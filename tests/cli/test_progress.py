"""Progress on one line: when it is shown, its words, and that nothing of it is left."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from spooltop.cli.context import ProgressLine
from spooltop.cli.main import Terminal
from tests.clock import NOW, Clock
from tests.e2e.terminal import SPOOLTOP
from tests.e2e.terminal import Terminal as Pty

from .streams import Stream, spooltop


class Line:
    """Progress line on a terminal in memory, and the clock that it reads."""

    def __init__(
        self, label: str, *, tty: bool = True, term: str = "xterm", columns: int = 80, ascii: bool = False, **more: object
    ) -> None:
        self.clock, self.stream = Clock(), Stream(tty=tty)
        terminal = Terminal(Stream(tty=tty), Stream(tty=tty), self.stream, {"TERM": term, "LANG": "C.UTF-8"})
        terminal.width = lambda stream: columns  # type: ignore[method-assign]
        terminal.ascii = ascii
        self.line = ProgressLine(terminal, label, monotonic=self.clock, **more)  # type: ignore[arg-type]

    def advance(self, seconds: float, done: int) -> None:
        self.clock.advance(seconds)
        self.line.advance(done)

    @property
    def painted(self) -> list[str]:
        return [line for line in re.split(r"\r(?:\x1b\[J)?", self.stream.written) if line]


def test_the_first_line_comes_after_a_second_and_then_ten_a_second() -> None:
    on = Line("hold", total=1000)
    on.advance(0.99, 9)
    assert on.stream.written == ""
    for step in range(1, 101):
        on.clock.now = NOW + step / 50
        on.line.advance(step)
    assert len(on.painted) == 11
    assert on.painted[0].endswith("50 of 1,000 · 50.0/s · 19s left")
    on.line.close()
    assert on.stream.written.endswith("\r\r\x1b[J")
    for hidden in (Line("hold", tty=False), Line("hold", term="dumb"), Line("hold", shown=False)):
        hidden.advance(5, 9)
        hidden.line.close()
        assert hidden.stream.written == "", "nothing is written where no line can be erased"


def test_words_with_numbers_become_a_bar_and_others_stay() -> None:
    on = Line("requeue: making the plan", columns=120, hint="Ctrl-C leaves")
    on.clock.advance(2)
    on.line.tell("150,000 of 300,000 claims judged")
    on.clock.advance(1)
    on.line.tell("\x1b]0;reading the journal")
    on.clock.advance(1)
    on.line.advanced(0.5, (), 0)
    bar = "█" * 10 + "░" * 10
    assert on.painted == [
        f"requeue: making the plan {bar} 150,000 of 300,000 claims judged · 75,000/s · 2.0s left · Ctrl-C leaves",
        r"requeue: making the plan · \x1b]0;reading the journal · Ctrl-C leaves",
        f"requeue: making the plan {bar} 50% · 4.0s left · Ctrl-C leaves",
    ]


def test_a_bar_is_of_ascii_where_the_terminal_has_no_more() -> None:
    on = Line("hold", total=2000, ascii=True)
    on.advance(5, 500)
    assert on.painted == ["hold [#####---------------] 500 of 2,000 - 100/s - 15s left"]


def test_the_rate_is_that_of_the_last_seconds_and_begins_anew_with_a_new_count() -> None:
    on, done = Line("x"), 0
    for second in range(1, 21):
        done += 1000 if second <= 10 else 10
        on.advance(1, done)
    assert (on.painted[9], on.painted[-1]) == ("x 10,000 · 1,000/s", "x 10,100 · 10.0/s")
    on.advance(1, 7)
    on.advance(1, 12)
    assert on.painted[-1] == "x 12 · 5.0/s"


@pytest.mark.parametrize("width", range(1, 100, 14))
@pytest.mark.parametrize("ascii", [True, False])
def test_the_line_fits_and_loses_its_end_first(width: int, ascii: bool) -> None:
    on = Line("requeue", columns=width, ascii=ascii, total=40_000, hint="Ctrl-C stops")
    on.advance(4, 12_300)
    (shown,) = on.painted or [""]
    assert len(shown) < max(2, width)
    assert not ascii or shown.isascii()
    assert ("Ctrl-C" in shown) == (width >= 85) and ("left" in shown) <= ("3,075/s" in shown)


def test_on_a_real_terminal_it_survives_a_narrower_window(spool: Path) -> None:
    assert spooltop("inject", spool, "--count", "80", "--yes").code == 0
    with Pty([*SPOOLTOP, "hold", str(spool), "ALL", "--box", "new", "--yes", "--rate", "20/s"], cols=100) as screen:
        wide = screen.wait_for(lambda text: "of 80" in text and "Ctrl-C stops between two items" in text)
        assert re.search(r"hold █+░+ \d\d of 80 · \d\d\.\d/s · \ds left", re.sub(r"(\d)\.\d(s left)", r"\1\2", wide))
        screen.resize(40, 23)
        narrow = screen.wait_for(lambda text: "of 80" in text and "Ctrl-C" not in text)
        assert len([line for line in narrow.splitlines() if "of 80" in line]) == 1
        assert screen.wait_exit() == 0
        assert "held 80 · skipped 0 · failed 0" in screen.text
        assert "left" not in screen.text and "█" not in screen.text


@pytest.mark.parametrize(
    ("tty", "environ", "coloured", "ascii"),
    [
        (True, {"TERM": "xterm", "LANG": "C.UTF-8"}, True, False), (False, {"TERM": "xterm", "LANG": "C"}, False, True),
        (True, {"TERM": "linux", "LANG": "C.UTF-8"}, True, True), (True, {"TERM": "dumb"}, False, False),
        (True, {}, False, False), (True, {"TERM": "xterm", "NO_COLOR": "1"}, False, False),
        (True, {"TERM": "xterm", "NO_COLOR": ""}, True, False),
    ],
)  # fmt: skip
def test_colours_and_signs_are_those_that_the_terminal_has_and_the_user_wants(
    tty: bool, environ: dict[str, str], coloured: bool, ascii: bool
) -> None:
    terminal = Terminal(Stream(), Stream(tty=tty), Stream(), environ)
    assert (terminal.coloured, terminal.ascii) == (coloured, ascii)
