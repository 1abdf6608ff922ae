"""Whoever owns a spool writes what he likes beside the boxes: any value in any member of any line of it is borne by every look,
list, plan and printed line."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from spooltop.engine import CursorFile
from spooltop.model.plan import Selection
from spooltop.model.vocabulary import ASIDE, Action, Box
from tests.builders import SpoolWorld
from tests.cli.streams import spooltop

WHOLE = bool(os.environ.get("SPOOLTOP_WHOLE"))
VALUES = (
    10**400, -(10**400), math.inf, -math.inf, math.nan, 1e300, -1, 1.5, True, None, "", "\x1b[31m\x9b2J\u202e\n",
    "../../etc/passwd", "\udcff\ud800", "x" * 100_000, [], [[]], {}, {"a": {"a": 1}}, "0", 2**64, "/dev/zero",
)  # fmt: skip
COMMANDS = (
    "status", "status --json", "cursors", "locks", "tickets", "consumers --json", "ls", "ops", "ops --json",
    *(f"ls --json --box {box}" for box in (Box.CUR, *ASIDE)), "requeue ALL --force --dry-run", "hold ALL --dry-run",
    "requeue --box rejected ALL --dry-run", "purge --box held ALL --dry-run", "restore --box trash ALL --force --dry-run",
)  # fmt: skip


@pytest.fixture
def world(tmp_path: Path) -> Iterator[SpoolWorld]:
    """Spool with a line or a file of everything that is kept beside the boxes."""
    with SpoolWorld(tmp_path) as world:
        for name in ("claimed", "purged", "held"):
            world.put(name)
        world.claim_dead()
        world.put_aside(Box.REJECTED, "rejected", origin="cur", reason="no", at=1.0, who="w")
        world.write("cursors.json", '{"bot": 1}')
        CursorFile(world.path / "cursors.json").advance("bot", 2)
        world.write("leader.lock", json.dumps({"pid": 999_999, "host": "here", "expiresAt": 5, "ownerId": "w"}))
        world.do(Action.PURGE, Selection(ids=("purged",)))
        world.do(Action.HOLD, Selection(ids=("held",)))
        world.do(Action.SET_CURSOR, Selection(), source="bot", value=3)
        yield world


def wrong_of(world: SpoolWorld, operations: Sequence[str]) -> Iterator[str]:
    """Runs each command that looks, and each plan, and yields what is no answer: a defect, a raw byte, a line that is no JSON."""
    for words in (*COMMANDS, *(words for id in operations for words in (f"undo {id} --dry-run", f"ops {id}"))):
        command, *more = words.split()
        done = spooltop(command, world.path, *more, environ={"TERM": "xterm", "XDG_STATE_HOME": str(world.state)})
        if "this is a defect" in done.err or not (done.out + done.err).replace("\n", "").isprintable():
            yield f"{words}: {done.out} {done.err}"
        for line in done.out.splitlines() if "--json" in words else ():
            json.loads(line, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))


def members(thing: object, way: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """The way to each member within a JSON value, the whole itself first."""
    yield way
    if isinstance(thing, dict):
        for name, value in thing.items():
            yield from members(value, (*way, name))
    elif isinstance(thing, list):
        for place, value in enumerate(thing[:1]):
            yield from members(value, (*way, place))


def forged(thing: object, way: tuple[str | int, ...], value: object) -> object:
    """``thing`` with ``value`` at the end of ``way``."""
    if not way:
        return value
    if isinstance(thing, dict):
        return {name: forged(old, way[1:], value) if name == way[0] else old for name, old in thing.items()}
    assert isinstance(thing, list)
    return [forged(old, way[1:], value) if place == way[0] else old for place, old in enumerate(thing)]


def logs(spool: Path) -> dict[Path, list[object]]:
    """Each file of JSON lines beside the boxes, with its lines."""
    found: dict[Path, list[object]] = {}
    for path in sorted(spool.rglob("*")):
        if path.suffix in (".json", ".jsonl", ".journal", ".lock", ".meta") or path.parent.name == "consumers":
            found[path] = [json.loads(line) for line in path.read_text().replace("\0", "").splitlines()]
    return found


def test_any_value_in_any_member_of_what_lies_beside_the_boxes_is_borne(world: SpoolWorld) -> None:
    found = logs(world.path)
    names = {path.name for path in found}
    assert {"cursors.json", ".cursors.journal", "journal.jsonl", "cursors.jsonl", "leader.lock"} <= names, names
    assert sum(path.name.endswith(".meta") for path in found) == 3 and any(path.parent.name == "consumers" for path in found)
    with world.control() as control:
        operations = [record.operation for record in control.operations()]
    assert not list(wrong_of(world, operations))
    shots = sorted({(way, place) for lines in found.values() for line in lines for way in members(line)
                    for place in range(len(VALUES))}, key=str)  # fmt: skip
    wrong: list[str] = []
    times = [((name,), place) for name in ("at", "since", "time") for place in (0, 4)]
    for way, place in shots if WHOLE else [*shots[::199], *times]:
        for path, lines in found.items():
            if any(way in set(members(line)) for line in lines):
                forged_lines = [forged(line, way, VALUES[place]) if way in set(members(line)) else line for line in lines]
                path.unlink()
                path.write_text("".join(json.dumps(line) + "\n" for line in forged_lines))
        wrong += [f"{VALUES[place]!r:.60} as {way}: {what}" for what in wrong_of(world, operations)]
        for path, lines in found.items():
            path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert not wrong, "\n".join(wrong)
