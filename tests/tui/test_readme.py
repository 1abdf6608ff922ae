"""The keys that the README tells of are the keys that there are."""

from __future__ import annotations

from pathlib import Path

from spooltop.tui.commands import key_table_markdown

README = Path(__file__).parents[2] / "README.md"


def test_the_readme_has_the_table_of_keys() -> None:
    text = README.read_text(encoding="utf-8")
    table = text.partition("<!-- keys -->\n")[2].partition("<!-- /keys -->")[0]
    assert table == key_table_markdown(), "put what key_table_markdown() gives between the two marks"
