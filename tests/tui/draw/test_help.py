"""Lines of help in a window that is too small for them."""

from __future__ import annotations

from spooltop.tui.draw.elements.spans import line_text
from spooltop.tui.draw.help import HelpEntry, HelpSection, help_lines


def test_only_lines_that_do_not_fit_are_counted() -> None:
    section = HelpSection("Keys", tuple(HelpEntry(key, f"does {key}, in more words than half a line holds") for key in "abc"))
    whole = [line_text(line) for line in help_lines([section], 60, 4)]
    assert [line.strip()[:1] for line in whole] == ["K", "a", "b", "c"]
    cut = [line_text(line) for line in help_lines([section], 60, 3)]
    assert cut[:2] == whole[:2] and cut[2].strip() == "… 2 more lines, PgDn"
    assert [line_text(line) for line in help_lines([section], 60, 3, scroll=1)] == whole[1:]
