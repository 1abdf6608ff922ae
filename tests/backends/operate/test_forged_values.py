"""Whoever owns a spool writes what he likes beside the boxes: any value in any member of any line of it is borne by every look,
list, plan and printed line."""

from __future__ import annotations

import json
import math
import os
import traceback
from collections.abc import Iterator
from pathlib import Path

import pytest

from spooltop.cli.render import changes_text, snapshot_json, snapshot_text
from spooltop.control import Control, open_control
from spooltop.engine import CursorFile, Spool
from spooltop.errors import SpooltopError
from spooltop.model.filters.selection import Selection
from spooltop.model.protocols import ListQuery
from spooltop.model.vocabulary import Action, Box

WHOLE = bool(os.environ.get("SPOOLTOP_WHOLE"))
VALUES = (
    10**400, -(10**400), math.inf, -math.inf, math.nan, 1e300, -1, 1.5, True, None, "", "\x1b[31m\x9b2J\u202e\n",
    "../../etc/passwd", "\udcff\ud800", "x" * 100_000, [], [[]], {}, {"a": {"a": 1}}, "0", 2**64, "/dev/zero",
)  # fmt: skip
PLANS = (
    (Action.REQUEUE, Box.CUR), (Action.REQUEUE, Box.REJECTED), (Action.PURGE, Box.HELD), (Action.EMPTY, Box.TRASH),
    (Action.RESTORE, Box.TRASH), (Action.RELEASE, Box.HELD), (Action.HOLD, Box.NEW),
)  # fmt: skip


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    """Spool with a line or a file of everything that is kept beside the boxes."""
    path = tmp_path / "spool"
    with Spool.create(path, durable=False) as made:
        for number in range(5):
            made.put(b"%d" % number, source="bot")
        made.put(b"k", key="once")
        pid = os.fork()
        if pid == 0:
            kept = [Spool(path, durable=False).claim(), made.claim()]
            os._exit(0 if all(kept) else 1)
        assert os.waitpid(pid, 0)[1] == 0
        claim = made.claim()
        assert claim is not None
        claim.reject("no")
    (path / "cursors.json").write_text('{"bot": 1}')
    CursorFile(path / "cursors.json").advance("bot", 2)
    (path / "leader.lock").write_text(json.dumps({"pid": 999_999, "host": "here", "expiresAt": 5, "ownerId": "w"}))
    with open_control(str(path), watch=False, settings={}) as control:
        waiting = [row.id for row in rows(control, Box.NEW)]
        for action, id in ((Action.PURGE, waiting[0]), (Action.HOLD, waiting[1])):
            control.apply(control.plan(action, Selection(box=Box.NEW, ids=(id,))))
        cursor = {"source": "bot", "value": 3, "file": None}
        control.apply(control.plan(Action.SET_CURSOR, Selection(), options=cursor))
        everything(control)
    return path


def rows(control: Control, box: Box) -> list[object]:
    control.look(rescan=True)
    return list(control.listing(ListQuery(box)).window(0, 99))


def everything(control: Control) -> None:
    """All that a front end asks, and what it prints. Nothing but a ``SpooltopError`` of one printable line may come of it."""
    snapshot = control.look(rescan=True)
    printed = [*snapshot_text.status(snapshot, "spool"), *snapshot_text.cursors(snapshot), *snapshot_text.locks(snapshot)]
    documents = [snapshot_json.dumps(snapshot_json.status(snapshot, "spool"))]
    now = control.now()
    for box in Box:
        found = control.listing(ListQuery(box)).window(0, 99)
        printed += snapshot_text.rows(found, now)
        for row in found:
            documents.append(snapshot_json.dumps(snapshot_json.row(row, now)))
            printed += said(lambda row=row: snapshot_text.message(row, control.read(row.key), now))
    for record in control.operations():
        printed += changes_text.audited(record, control.audit(record.operation), now)
        printed += said(lambda id=record.operation: changes_text.plan(
            control.plan(Action.UNDO, Selection(), options={"undoes": id})))  # fmt: skip
    for action, box in PLANS:
        printed += said(lambda action=action, box=box: changes_text.plan(
            control.plan(action, Selection(box=box, everything=True), force=True)))  # fmt: skip
    assert all(line.isprintable() for line in printed), [line for line in printed if not line.isprintable()]
    for line in documents:
        json.loads(line, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))


def said(plan) -> list[str]:
    try:
        return plan()
    except SpooltopError as error:
        return [str(error)]


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
        if not path.is_file() or path.parent.name in ("new", "cur", "tmp"):
            continue
        try:
            found[path] = [json.loads(line) for line in path.read_text().splitlines()]
        except ValueError:
            continue
    return found


def test_any_value_in_any_member_of_what_lies_beside_the_boxes_is_borne(spool: Path) -> None:
    found = logs(spool)
    names = {path.name for path in found}
    assert {"cursors.json", ".cursors.journal", "journal.jsonl", "audit.jsonl", "cursors.jsonl", "leader.lock"} <= names, names
    assert sum(path.name.endswith(".meta") for path in found) == 3 and any(path.parent.name == "consumers" for path in found)
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
        with open_control(str(spool), watch=False, settings={}) as control:
            try:
                everything(control)
            except Exception as error:  # noqa: BLE001  whatever comes of it is a defect
                wrong.append(f"{VALUES[place]!r:.60} as {way}: {traceback.format_exception(error)[-2:]}")
        for path, lines in found.items():
            path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert not wrong, "\n".join(wrong)
