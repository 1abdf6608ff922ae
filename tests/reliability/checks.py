"""Checks that find faults: each tries one promise of the engine and reports what was wrong.

The file operations of a check are made by ``made(kind)``, where ``kind`` is the class that it would use, so that a fault can be
put in between.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from spooltop.engine import CursorFile, Spool
from spooltop.engine.dirs import SpoolDirs
from spooltop.engine.files import Files
from spooltop.engine.presence import look
from spooltop.errors import ClaimLost, LockTimedOut, SpooltopError

from .crash import points
from .pagecache import Disk, RecordingFiles
from .powercut import cuts
from .seam import Seam, Tripwire
from .world import OPERATIONS, killed_in_child

__all__ = ["CHECKS", "Made"]

Made = Callable[[type], type]
"""Gives a class of file operations, with the fault in it."""


def room(base: Path, name: str) -> Path:
    (base / name).mkdir()
    return base / name


def first(found: Iterator[tuple[int, list[str]]], what: str) -> list[str]:
    """The first point at which anything was wrong is enough."""
    for number, wrong in found:
        if wrong:
            return [f"{what} {number}: {words}" for words in wrong]
    return []


def power_cut(base: Path, made: Made) -> list[str]:
    """A power cut after every change of a put, a claim, an ack, a release, a reject and a cursor."""
    wrong = []
    for operation in ("put", "put_by_key", "ack", "release", "reject", "cursor"):
        wrong += first(cuts(room(base, operation), [operation], old=False, kind=made(RecordingFiles)), f"{operation}, cut after")
    return wrong


def power_cut_without_renameat2(base: Path, made: Made) -> list[str]:
    wrong = []
    for operation in ("put", "release"):
        wrong += first(cuts(room(base, operation), [operation], old=True, kind=made(RecordingFiles)), f"{operation}, cut after")
    return wrong


def power_cut_after_a_failed_sync(base: Path, made: Made) -> list[str]:
    wrong = []
    for operation in ("put", "cursor"):
        for number in (1, 2):
            found = cuts(room(base, f"{operation}{number}"), [operation], old=False, fail_sync=number, kind=made(RecordingFiles))
            wrong += first(found, f"{operation}, sync {number} failed, cut after")
    return wrong


def power_cut_of_a_group(base: Path, made: Made) -> list[str]:
    """Messages confirmed by a group commit are whole after a power cut, and messages that show before that are whole too."""
    root = base / "spool"
    Spool.create(root).close()
    disk, files = Disk(root), made(RecordingFiles)()
    with Spool(root, files=files) as spool:
        ids = spool.put_many([b"whole " * 1000] * 40)
    wrong = []
    for number, event in enumerate(files.events):
        changed = disk.apply(event)
        last = number + 1 == len(files.events)
        if not (last or (changed and event[0] in ("move", "syncdir", "syncall"))):
            continue
        for cut in disk.cuts(number):
            at = base / "cut"
            disk.lay_out(cut, at)
            shown = {path.name: path.stat().st_size for path in (at / "new").iterdir()}
            wrong += [f"cut after {number}: {size} bytes of a message" for size in shown.values() if size != 6000][:1]
            if last and sorted(shown) != ids:
                wrong.append(f"{len(ids) - len(shown)} of {len(ids)} confirmed messages are lost")
            for path in sorted(at.rglob("*"), reverse=True):
                path.rmdir() if path.is_dir() else path.unlink()
            at.rmdir()
            if wrong:
                return wrong
    return wrong


def killed_anywhere(base: Path, made: Made) -> list[str]:
    """The process killed at every file operation of each operation."""
    wrong = []
    for operation in OPERATIONS:
        try:
            wrong += first(points(room(base, operation), [operation], old=False, kind=made(Tripwire)), f"{operation}, killed at")
        except FileNotFoundError as error:
            wrong.append(f"{operation}, killed: {os.path.basename(str(error.filename))} is not there")
        except AssertionError as error:
            wrong.append(f"{operation} does not work at all: {error}")
    return wrong


def two_under_one_name(base: Path, made: Made) -> list[str]:
    """A message that goes back to where another one of its name has come meanwhile: both are kept."""
    root = base / "spool"
    wrong = []
    with Spool.create(root, False) as made_first:
        assert made_first.depth() == 0
    with Spool(root, False, files=made(Files)()) as spool:
        (root / "new" / "job").write_bytes(b"first")
        claim = spool.claim()
        assert claim is not None
        (root / "new" / "job").write_bytes(b"second")
        try:
            claim.release()
            wrong.append("released over another message without a word")
        except SpooltopError:
            claim.end()
    kept = sorted(path.read_bytes() for box in ("new", "cur") for path in (root / box).iterdir())
    return wrong if kept == [b"first", b"second"] else [*wrong, f"{kept} is all that is left"]


def dribbled(base: Path, made: Made) -> list[str]:
    """Each write writes part of what it was asked to."""

    class Dribble(Files):
        def write(self, fd: int, data: Any) -> int:  # type: ignore[override]
            return os.write(fd, bytes(data)[:1000])

    with Spool.create(base / "spool", False, files=made(Dribble)()) as spool:
        spool.put(b"x" * 5000)
        spool.put_many([b"y" * 5000])
        sizes = []
        for claim in spool.claims():
            sizes.append(len(claim.data))
            claim.ack()
    return [] if sizes == [5000, 5000] else [f"{sizes} bytes came out, of 5,000 each"]


def living_holder(base: Path, made: Made) -> list[str]:
    """Nobody takes a claim from a living consumer, though the claim is an hour old and its presence is looked at."""
    root = base / "spool"
    with Spool.create(root, False) as spool:
        spool.put(b"held")
    kind = made(Files)
    taken = root / "taken"

    def recover() -> None:
        with Spool(root, False, files=kind()) as other:
            taken.write_text(json.dumps(other.recover()))

    with Spool(root, False, files=kind(), clock=lambda: time.time() - 3600) as holder:
        claim = holder.claim()
        assert claim is not None
        with SpoolDirs(root, kind()) as dirs:
            look(dirs, claim.token)
        killed_in_child(recover)
        record = json.loads(taken.read_text())
        wrong = [f"{id} was taken from a consumer that lives" for id in record]
        if not (root / "cur" / claim.name).exists() and not record:
            wrong.append("the claim has gone")
        claim.end()
    return wrong


def dead_beside_living(base: Path, made: Made) -> list[str]:
    """When one of two consumers dies, the claim of the other stays with it."""
    root = base / "spool"
    kind = made(Files)
    with Spool.create(root, False) as spool:
        ids = spool.put_many([b"living", b"dead"])
    with Spool(root, False, files=kind()) as holder:
        held = holder.claim()
        assert held is not None

        def die() -> None:
            claim = Spool(root, False, files=kind()).claim()
            assert claim is not None
            os.kill(os.getpid(), 9)

        assert killed_in_child(die)
        with Spool(root, False, files=kind()) as other:
            back = other.recover()
        held.end()
    return [] if back == ids[1:] else [f"{back} went back, where {ids[1:]} alone was left by a dead consumer"]


def three_pollers(base: Path, made: Made) -> list[str]:
    """A poller waits for the lock while another stores its cursor, and while it stores its own a third one comes."""
    path = base / "cursors.json"
    path.write_text("{}")
    seen = {"lock": False, "replace": False}
    late: list[str] = []

    def around(_number: int, name: str, do: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        if name == "lock" and not seen["lock"]:
            seen["lock"] = True
            CursorFile(path, files=made(Files)()).advance("second", 2)
        if name == "replace" and not seen["replace"]:
            seen["replace"] = True
            try:
                CursorFile(path, files=made(Files)(), timeout=0).advance("third", 3)
            except LockTimedOut:
                late.append("third")
        return do(*arguments)

    files = Seam(around)
    files.armed = True
    CursorFile(path, files=files).advance("first", 1)
    if late:
        CursorFile(path).advance("third", 3)
    found = json.loads(path.read_text())
    return [] if found == {"first": 1, "second": 2, "third": 3} else [f"three cursors were stored, {found} is there"]


def taken_away(base: Path, made: Made) -> list[str]:
    """The ack of a claim that an operator has put back meanwhile."""
    root = base / "spool"
    with Spool.create(root, False, files=made(Files)()) as spool:
        spool.put(b"again")
        claim = spool.claim()
        assert claim is not None
        os.rename(root / "cur" / claim.name, root / "new" / claim.base)
        try:
            claim.ack()
        except ClaimLost:
            return []
        return ["acked, though it is in new"]


CHECKS: Sequence[Callable[[Path, Made], list[str]]] = (
    power_cut, power_cut_without_renameat2, power_cut_after_a_failed_sync, power_cut_of_a_group, killed_anywhere,
    two_under_one_name, dribbled, living_holder, dead_beside_living, three_pollers, taken_away,
)  # fmt: skip
