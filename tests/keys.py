"""The tables of keys, made from the table of commands.

    python -m tests.keys    writes tests/keys.md and the part of README.md between its marks
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from spooltop.tui.commands import COMMANDS, GROUPS, KeyCommand

README = Path(__file__).parents[1] / "README.md"
KEYS = Path(__file__).parent / "keys.md"

TWELVE = (
    "open", "back", "filter", "mark", "requeue", "purge", "hold", "operations", "who", "follow", "help", "quit",
)  # fmt: skip
"""Ids of the commands that the README shows."""
BEGIN, END = "<!-- keys -->\n", "<!-- /keys -->"

HEAD = """# All keys

Made by `python -m tests.keys` from the table of commands, `spooltop/tui/commands.py`; a test compares the two.
"""


def keys_of(command: KeyCommand) -> str:
    return " ".join(f"`{key}`" for key in command.shown_keys.split())


def table(commands: Iterable[KeyCommand]) -> str:
    """A Markdown table: a line for each command, its keys and what it does."""
    lines = ["| key | what it does |", "|---|---|"]
    lines += dict.fromkeys(f"| {keys_of(command)} | {command.help.replace('|', chr(92) + '|')} |" for command in commands)
    return "\n".join(lines) + "\n"


def readme_part() -> str:
    """Returns the text between the marks in README.md: the twelve commands, in the order of ``TWELVE``."""
    by_id = {command.id: command for command in COMMANDS}
    return table(by_id[name] for name in TWELVE)


def keys_page() -> str:
    """The text of tests/keys.md: all commands, group by group."""
    parts = [HEAD]
    for group, title in GROUPS.items():
        parts.append(f"\n## {title}\n\n{table(command for command in COMMANDS if command.group == group)}")
    return "".join(parts)


def with_keys(text: str) -> str:
    """The README's ``text`` with the table between its marks renewed. Raises ``ValueError`` where a mark is missing."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"README.md lacks {BEGIN.strip()} or {END}")
    return f"{before}{begin}{readme_part()}{end}{after}"


def main() -> None:
    README.write_text(with_keys(README.read_text(encoding="utf-8")), encoding="utf-8")
    KEYS.write_text(keys_page(), encoding="utf-8")


if __name__ == "__main__":
    main()
