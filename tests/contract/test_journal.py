"""The public form of the journals, as ``backends.journal`` documents it, for other programs with a JSON parser."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from spooltop.backends import journal
from spooltop.model.plan import Selection
from spooltop.model.vocabulary import Action, Box
from tests.builders import ALL, ROOT_STATE, LayoutWorld, LockWorld, SpoolWorld, World
from tests.stream_builders import StreamWorld
from tests.stream_servers import KINDS, running

DOCUMENTED = [line.split() for line in (journal.__doc__ or "").splitlines() if line.startswith("    ")]
COMMON = {words[0]: words[1:] for words in DOCUMENTED if words[0] in ("line", "intent", "result")}
ACTOR = {"uid", "pid", "sudo_user", "ssh_connection", "tty"}


def forms(name: str) -> dict[str, list[list[str]]]:
    """The documented members of the intents and of the results in a journal, in order; a stream and a layout share a name."""
    found = defaultdict(list)
    for _, step, line, *own in (words for words in DOCUMENTED if words[0] == name):
        head = [step if word == "STEP" else word for word in COMMON["line"] if word != "STEP" or step != "-"]
        found[line].append([*head, *COMMON[line], *own])
    return found


def lines_of(world: World, name: str) -> Iterator[dict[str, Any]]:
    """The lines of the journal ``name``, without the room that is kept behind them."""
    of_root = Path(ROOT_STATE).glob(f"*{world.group}*") if isinstance(world, StreamWorld) else world.logs_of_root()
    for folder in (world.path, world.state, *of_root):
        for file in folder.rglob(f"{name}.jsonl"):
            yield from map(json.loads, file.read_text().replace("\0", "").splitlines())


def check(world: World, name: str, *, force: bool) -> None:
    """Demands that each line has the documented members, of the documented types."""
    known, lines = forms(name), list(lines_of(world, name))
    assert {line["line"] for line in lines} == {"intent", "result"} and any(line.get("undoes") for line in lines)
    for line in lines:
        possible = ([word for word in form if word in line or word != "between"] for form in known[line["line"]])
        assert list(line) in possible, line
        assert line["schema"] == 1 and isinstance(line["operation"], str) and isinstance(line["time"], float)
        if line["line"] == "intent":
            assert line["by"].keys() == ACTOR and isinstance(line["by"]["pid"], int) and isinstance(line["user"], str)
            assert line["count"] >= 1 and line["force"] is (force and line["undoes"] is None)


def change(world: World, action: Action, selection: Selection = ALL, *, force: bool = False, **options: Any) -> None:
    plan, result = world.do(action, selection, force=force, **options)
    assert result.undo, result
    world.undo(plan.operation)


def test_each_line_of_the_journals_of_a_spool_has_the_documented_members(tmp_path: Path) -> None:
    with SpoolWorld(tmp_path) as world:
        for name in ("plain", "strange \\ \x1b\udcff"):
            world.put(name)
        world.cursors(bot=1)
        change(world, Action.HOLD, Selection(box=Box.NEW, everything=True))
        change(world, Action.PAUSE, Selection(), reason="why")
        change(world, Action.SET_CURSOR, Selection(), source="bot", value=2)
        for name in ("journal", "pauses", "cursors"):
            check(world, name, force=False)
        names = {name for line in lines_of(world, "journal") for run in line.get("moves", ()) for name in run["names"]}
        assert r"strange \\ \x1b\xff" in names


def test_each_line_of_the_journal_of_locks_has_the_documented_members(tmp_path: Path) -> None:
    with LockWorld(tmp_path) as world:
        world.soft_lock("a.lock")
        change(world, Action.UNLOCK, Selection(ids=("a.lock",)), force=True)
        check(world, "locks", force=True)


def test_each_line_of_the_journal_of_a_layout_has_the_documented_members(memory: Path) -> None:
    with LayoutWorld(memory, "job-queue") as world:
        change(world, Action.HOLD, Selection(box=Box.NEW, everything=True))
        check(world, "messages", force=False)


@pytest.mark.parametrize("kind", KINDS)
def test_each_line_of_the_journal_of_a_stream_has_the_documented_members(kind: str, memory: Path) -> None:
    with TemporaryDirectory(prefix="spooltop-streams-") as folder, running(kind, Path(folder)) as socket:
        with StreamWorld(memory, socket) as world:
            world.put_many(2)
            change(world, Action.HOLD, Selection(box=Box.NEW, everything=True))
            check(world, "messages", force=False)


@pytest.mark.parametrize(
    ("old", "new", "where"),
    [
        ('"schema":1', '"schema":2', "no journal line"),
        ('"count":1,', '"count":"1",', "$.count"),
        ('"time":', '"when":', "time is missing"),
        ('"inos":', '"inos":"x","was":', "$.moves[0].inos"),
    ],
)
def test_a_forged_line_is_refused_and_the_refusal_says_where(tmp_path: Path, old: str, new: str, where: str) -> None:
    with SpoolWorld(tmp_path) as world:
        world.put("one")
        plan, _ = world.do(Action.HOLD, Selection(box=Box.NEW, everything=True))
        journal = world.path / ".spooltop/journal.jsonl"
        intent, *others = journal.read_text().replace("\0", "").splitlines()
        assert old in intent
        journal.write_text("\n".join([intent, *others, intent.replace(old, new), ""]))
        undo, _ = world.undo(plan.operation)
        notes = "\n".join(undo.notes)
        assert undo.count == 1 and "1 lines of the journal are not journal lines and were left out" in notes and where in notes
