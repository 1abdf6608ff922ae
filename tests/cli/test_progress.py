"""Progress on one line: when it is shown, its words, and that nothing of it is left."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest

from spooltop.cli.progress import ListingProgress, ProgressLine
from spooltop.cli.terminal import Terminal
from tests.e2e.terminal import SPOOLTOP
from tests.e2e.terminal import Terminal as Pty

from .streams import Stream, spooltop


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.at = 100.0

    def __call__(self) -> float:
        return self.at


def terminal(*, tty: bool = True, term: str = "xterm", columns: int = 80) -> tuple[Terminal, Stream]:
    stream = Stream(tty=tty)
    environ = {"TERM": term, "LANG": "C.UTF-8"}
    return Terminal(Stream(tty=tty), Stream(tty=tty), stream, environ, columns=columns), stream


def painted(stream: Stream) -> list[str]:
    return [line for line in re.split(r"\r(?:\x1b\[J)?", stream.written) if line]


def test_the_first_line_comes_after_a_second_and_then_ten_a_second() -> None:
    where, stream = terminal()
    clock = Clock()
    line = ProgressLine(where, "hold", total=1000, monotonic=clock)
    clock.at += 0.99
    line.advance(9)
    assert stream.written == ""
    for step in range(1, 101):
        clock.at = 100 + step / 50
        line.advance(step)
    assert len(painted(stream)) == 11
    assert painted(stream)[0].endswith("50 of 1,000 · 50.0/s · 19s left")
    assert painted(stream)[-1].endswith("100 of 1,000 · 50.0/s · 18s left")
    line.close()
    assert stream.written.endswith("\r\r\x1b[J")


@pytest.mark.parametrize(
    ("tty", "term", "shown"), [(False, "xterm", True), (True, "dumb", True), (True, "", True), (True, "xterm", False)]
)
def test_nothing_is_written_where_no_line_can_be_erased(tty: bool, term: str, shown: bool) -> None:
    where, stream = terminal(tty=tty, term=term)
    clock = Clock()
    with ProgressLine(where, "hold", total=10, shown=shown, monotonic=clock) as line:
        clock.at += 5
        line.advance(9)
        line.tell("9 of 10 claims judged")
    assert stream.written == ""


def test_words_with_numbers_become_a_bar_and_others_stay() -> None:
    where, stream = terminal(columns=120)
    clock = Clock()
    line = ProgressLine(where, "requeue: making the plan", hint="Ctrl-C leaves", monotonic=clock)
    clock.at += 2
    line.tell("150,000 of 300,000 claims judged")
    clock.at += 1
    line.tell("\x1b]0;reading the journal")
    clock.at += 1
    ListingProgress(line).advanced(0.5, (), 0)
    bar = "█" * 10 + "░" * 10
    assert painted(stream) == [
        f"requeue: making the plan {bar} 150,000 of 300,000 claims judged · 75,000/s · 2.0s left · Ctrl-C leaves",
        r"requeue: making the plan · \x1b]0;reading the journal · Ctrl-C leaves",
        f"requeue: making the plan {bar} 50% · 4.0s left · Ctrl-C leaves",
    ]


def test_the_rate_is_that_of_the_last_seconds_and_begins_anew_with_a_new_count() -> None:
    where, stream = terminal()
    clock = Clock()
    line = ProgressLine(where, "x", monotonic=clock)
    done = 0
    for second in range(1, 21):
        done += 1000 if second <= 10 else 10
        clock.at += 1
        line.advance(done)
    assert painted(stream)[9] == "x 10,000 · 1,000/s"
    assert painted(stream)[-1] == "x 10,100 · 10.0/s"
    clock.at += 1
    line.advance(7)
    clock.at += 1
    line.advance(12)
    assert painted(stream)[-1] == "x 12 · 5.0/s"


@pytest.mark.parametrize("width", range(1, 100, 7))
@pytest.mark.parametrize("ascii", [True, False])
def test_the_line_fits_and_loses_its_end_first(width: int, ascii: bool) -> None:
    where, stream = terminal(columns=width)
    where.ascii = ascii
    clock = Clock()
    line = ProgressLine(where, "requeue", total=40_000, hint="Ctrl-C stops", monotonic=clock)
    clock.at += 4
    line.advance(12_300)
    (shown,) = painted(stream) or [""]
    assert len(shown) < max(2, width)
    assert not ascii or shown.isascii()
    assert ("Ctrl-C" in shown) == (width >= 85) and ("left" in shown) <= ("3,075/s" in shown)


def test_on_a_real_terminal_it_survives_a_narrower_window(tmp_path: Path) -> None:
    path = str(tmp_path / "spool")
    assert spooltop("init", path).code == 0
    assert spooltop("inject", path, "--count", "80", "--yes").code == 0
    with Pty([*SPOOLTOP, "hold", path, "ALL", "--box", "new", "--yes", "--rate", "20/s"], cols=100) as screen:
        wide = screen.wait_for(lambda text: "of 80" in text and "Ctrl-C stops between two items" in text)
        assert re.search(r"hold █+░+ \d\d of 80 · \d\d\.\d/s · \ds left", re.sub(r"(\d)\.\d(s left)", r"\1\2", wide))
        screen.resize(40, 23)
        narrow = screen.wait_for(lambda text: "of 80" in text and "Ctrl-C" not in text)
        assert len([line for line in narrow.splitlines() if "of 80" in line]) == 1
        assert screen.wait_exit() == 0
        assert "held 80 · skipped 0 · failed 0" in screen.text
        assert "left" not in screen.text and "█" not in screen.text


@pytest.mark.parametrize(
    ("environ", "ascii"),
    [({"LC_ALL": "C"}, True), ({"LC_ALL": "C.UTF-8"}, False), ({"LC_ALL": "C.UTF-8", "TERM": "linux"}, True)],
)
def test_a_terminal_that_may_lack_characters_gets_ascii(environ: dict[str, str], ascii: bool) -> None:
    assert Terminal(stdout=io.TextIOWrapper(io.BytesIO(), "utf-8"), environ=environ).ascii is ascii
