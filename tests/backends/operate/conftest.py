"""Desks: of a spool as a test finds it, and of one that a sweep finds again and again."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from spooltop.model.filters.selection import Selection
from spooltop.model.vocabulary import Box, Verdict
from tests.desk import Desk, new_desk
from tests.scratch import Template


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    made = new_desk(tmp_path)
    yield made
    made.close()


class Desks:
    """Desk that is prepared once, for a sweep: each trial gets it as it was then. ``prepared`` is what ``prepare`` returned."""

    def __init__(self, root: Path, prepare: Callable[[Desk], Any]) -> None:
        self._desk, self._template = new_desk(root), Template(root)
        self.prepared = prepare(self._desk)
        self._files = {path: path.stat().st_ino for path in root.rglob("*")}
        self._template.keep()

    def another(self) -> Desk:
        self._template.lay_out()
        journal = self._desk.path / ".spooltop" / "journal.jsonl"
        if journal in self._files:
            self._name_copies(journal)
        return self._desk

    def _name_copies(self, journal: Path) -> None:
        """Writes inodes and ctimes of the copies into the journal, which knows its files by them."""
        copies = {ino: path.stat() for path, ino in self._files.items()}
        lines = [json.loads(line) for line in journal.read_text().splitlines()]
        announced: dict[tuple[str, int], list[int]] = {}
        for line in lines:
            for run in line.get("moves", ()):
                inos = run["inos"] if isinstance(run["inos"], list) else [run["inos"]] * len(run["names"])
                run["inos"] = [copies[ino].st_ino for ino in inos]
                announced.setdefault((line["operation"], line["batch"]), []).extend(inos)
            for record in line.get("others", ()):
                copy = copies[record["ino"] or announced[line["operation"], line["batch"]][record["place"]]]
                record["ino"] = record["ino"] and copy.st_ino
                record["ctime"] = record["ctime"] and copy.st_ctime_ns
            if "between" in line:
                ctimes = [copy.st_ctime_ns for copy in copies.values()]
                line["between"] = [min(ctimes), max(ctimes)]
        journal.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))


@pytest.fixture
def desks(memory: Path) -> Callable[[Callable[[Desk], Any]], Desks]:
    """Prepares the desk of a sweep, in memory."""
    return partial(Desks, memory / "desk")


@pytest.fixture
def in_common(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Makes set-aside messages share their metadata, as very many do: as the parameter says, and without one they do."""
    common = bool(getattr(request, "param", True))
    if common:
        monkeypatch.setattr("spooltop.backends.directory.operator.operator._SMALL", 0)
    return common


@pytest.fixture
def dead() -> Selection:
    return Selection(box=Box.CUR, verdict=Verdict.DEAD)

