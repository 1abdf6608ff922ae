"""The image of the terminal: differences alone give the same screen as whole frames, whatever was drawn before."""

from __future__ import annotations

import random

import pyte
import pytest
from rich.cells import cell_len

from spooltop.tui.terminal.image import TerminalImage

COLUMNS, LINES = 30, 6
WIDE = "日本語"
TEXTS = ("ready", "  ", "a b", "─── ×", "Übermaß ·", WIDE, "e\u0301te\u0301", "x", "▌", "                    ")
STYLES = ("39;49", "1;39;49", "7;39;49", "2;39;49", "1;31;49", "38;5;39;49", "48;5;49", "4")


def drawn(chance: random.Random) -> str:
    """Part of a frame, as Textual writes it. The first lines hold wide characters and are written whole: pyte leaves a half of
    one that is written over."""
    parts = []
    for _ in range(chance.randint(1, 4)):
        line = chance.randrange(LINES)
        wide = line < 2
        parts.append(f"\x1b[{line + 1};{1 if wide else chance.randint(1, COLUMNS - 20)}H")
        room = COLUMNS if wide else 20
        for text in chance.choices(TEXTS, k=3):
            if cell_len(text) <= room and (wide or text != WIDE):
                room -= cell_len(text)
                parts.append(f"\x1b[{chance.choice(STYLES)}m{text}\x1b[0m")
        if wide:
            parts.append(f"\x1b[39;49m{' ' * room}\x1b[0m")
    return "".join(parts) + "\x1b[1;1H"


def filled(text: str = " ") -> str:
    return "\n".join(f"\x1b[{line + 1};1H\x1b[39;49m{text * COLUMNS}\x1b[0m" for line in range(LINES))


class Shown:
    """A terminal in memory."""

    def __init__(self) -> None:
        self.screen = pyte.Screen(COLUMNS, LINES)
        self._stream = pyte.Stream(self.screen)
        self._stream.feed("\x1b[?7l")

    def feed(self, output: str) -> None:
        self._stream.feed(output.replace("\n", ""))

    @property
    def cells(self) -> list[list[object]]:
        return [[_look(self.screen.buffer[y][x]) for x in range(COLUMNS)] for y in range(LINES)]


def _look(cell: pyte.screens.Char) -> object:
    if cell.data == " " and not cell.reverse and not cell.underscore:
        return " ", cell.bg
    return cell.data, cell.fg, cell.bg, cell.bold, cell.reverse, cell.underscore


def image(frame: str = filled()) -> TerminalImage:
    """An image that is shown."""
    made = TerminalImage()
    made.resize((COLUMNS, LINES))
    assert made.take(frame)
    made.difference()
    return made


@pytest.mark.parametrize("seed", range(20))
def test_differences_show_what_whole_frames_show(seed: int) -> None:
    chance = random.Random(seed)
    whole, parts, made = Shown(), Shown(), TerminalImage()
    made.resize((COLUMNS, LINES))
    frames = [filled(), *(drawn(chance) if chance.random() < 0.9 else filled(chance.choice(" x")) for _ in range(60))]
    for at, frame in enumerate(frames):
        whole.feed(frame)
        assert made.take(frame)
        if chance.random() < 0.1:
            parts.feed(filled("#"))  # somebody else wrote to it
            made.forget()
        if at == len(frames) - 1 or chance.random() < 0.7:
            parts.feed(made.difference())
            assert parts.cells == whole.cells, frame


def test_only_the_cells_that_differ_are_written() -> None:
    made = image(filled("x"))
    assert made.take("\x1b[2;1H\x1b[39;49mxxxxxxYxxxxxxxxxxxxxZ\x1b[0m\x1b[1;1H")
    assert made.difference() == "\x1b[2;7HY\x1b[13CZ"
    assert made.take("\x1b[2;7H\x1b[39;49mY\x1b[0m")
    assert made.difference() == ""
    made.forget()
    assert made.difference().count("x") == COLUMNS * LINES - 2


@pytest.mark.parametrize(
    ("before", "after", "written"),
    [
        ("日本語", "\x1b[2;2Habc", "\x1b[2H abc語\x1b[2;7H" + "x" * (COLUMNS - 6)),  # a blank replaces the half that is left
        ("日", "\x1b[2;1Hab", "\x1b[2Hab" + "x" * (COLUMNS - 2)),
    ],
)
def test_a_row_that_a_wide_character_leaves_is_written_whole(before: str, after: str, written: str) -> None:
    made = image(filled("x"))
    assert made.take(f"\x1b[2;1H{before}")
    made.difference()
    assert made.take(after)
    assert made.difference() == written


def test_nothing_of_another_size_is_kept() -> None:
    made = image(filled("x"))
    made.resize((4, 2))
    assert made.difference() == ""
    assert made.take("\x1b[1;1Habcdefgh\x1b[2;1Hijkl\x1b[3;1Hbelow")
    assert made.difference() == "\x1b[1Habcd\x1b[2Hijkl"


@pytest.mark.parametrize("output", ["\x1b[?1049h", "\x1b[?25l", "\x1b]52;c;eA==\x07", "\x07", "text", "\x1b[1;1Hx\x1b[?25h", ""])
def test_other_output_is_no_frame(output: str) -> None:
    made = image()
    assert not made.take(output)
    assert made.difference() == ""
