"""Attacks by the owner of a spool, who puts things into it to mislead its operator: the real things, as root and as a plain user.

Everything is looked at, listed, read, planned, applied and undone, in a child that an alarm ends if something blocks. Files
outside the spool stay unchanged, including their inodes and times; anything that is not a message stays where it is.
"""

from __future__ import annotations

import json
import os
import secrets  # noqa: F401  filelock loads it late
import shutil
import signal
import socket
import stat
import tempfile
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from spooltop.control import Control
from spooltop.errors import SpooltopError
from spooltop.model.backend import ListQuery
from spooltop.model.plan import Outcome, Result, Selection
from spooltop.model.vocabulary import LIVE, Action, Box
from tests.builders import SpoolWorld
from tests.needs import needs

NOBODY = 65534
HUGE = 10 << 30
PATIENCE = 30
pytestmark = needs("root")


class Ground(SpoolWorld):
    """A spool of another user, something precious outside, and whoever works on it."""

    options: Mapping[str, Any] = {"as_kind": "spool"}

    def __init__(self, base: Path, who: str) -> None:
        super().__init__(base)
        self.outside, self.who = base / "outside", who
        self.outside.mkdir()
        self.state.mkdir(mode=0o700)
        self.precious = self.outside / "precious"
        self.precious.write_text("precious")
        (self.outside / "good").write_text("outside")
        self.write("new/good", "data")

    def settle(self) -> None:
        """The spool belongs to another user; what is outside is as it is now."""
        for folder, folders, files in os.walk(self.path):
            for name in (".", *folders, *files):
                os.chown(os.path.join(folder, name), NOBODY, NOBODY, follow_symlinks=False)
        if self.who == "nobody":
            os.chown(self.state, NOBODY, NOBODY)
        for precious in (self.outside, self.precious):
            os.chown(precious, 0, 0)
        self.before = self.seen_outside()

    def seen_outside(self) -> dict[str, tuple[object, ...]]:
        found = {}
        for path in (self.outside, *self.outside.rglob("*")):
            at = path.lstat()
            data = path.read_bytes() if stat.S_ISREG(at.st_mode) and at.st_size < 1 << 20 else b""
            found[str(path)] = (at.st_mode, at.st_ino, at.st_uid, at.st_gid, at.st_size, at.st_mtime_ns, at.st_ctime_ns, data)
        return found

    def run(self, work: Callable[[Control], None]) -> list[str]:
        """Runs ``work`` in a child and returns the lines of errors that a person is shown. Fails where it blocks or breaks."""
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                signal.alarm(PATIENCE)
                if self.who == "nobody":
                    os.setgroups([])
                    os.setresgid(NOBODY, NOBODY, NOBODY)
                    os.setresuid(NOBODY, NOBODY, NOBODY)
                said: list[str] = []

                def look() -> None:
                    with self.control() as control:
                        session(control, work, said)

                tell(said, look)
                os.write(writing, json.dumps(said).encode())
                code = 0
            except BaseException:  # noqa: BLE001  a child never runs on in its parent's place
                traceback.print_exc()
            finally:
                os._exit(code)
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            said = pipe.read()
        status = os.waitpid(pid, 0)[1]
        assert not os.WIFSIGNALED(status), "it blocked"
        assert status == 0
        messages: list[str] = json.loads(said)
        assert self.seen_outside() == self.before
        assert all(line.isprintable() and len(line) < 1000 for line in messages), messages
        return messages


def session(control: Control, work: Callable[[Control], None], said: list[str]) -> None:
    """Does ``work``, and asks all that a front end asks."""
    tell(said, partial(work, control))
    look = control.look(rescan=True)
    said += [box.error for box in look.observation.boxes.values() if box.error]
    for box in Box:
        listing = control.listing(ListQuery(box))
        for row in listing.window(0, len(listing)):
            tell(said, partial(control.read, row.key, 4096))
            tell(said, partial(control.holders, row.key))
    for lock in look.observation.locks:
        tell(said, partial(control.holders, lock.path))


def tell(said: list[str], act: Callable[[], object]) -> None:
    try:
        act()
    except SpooltopError as error:
        said.append(str(error))


def change(control: Control, action: Action, box: Box | None = None, **options: object) -> Result:
    """Plans for everything and applies it."""
    selection = Selection(box=box, everything=box is not None)
    return control.apply(control.plan(action, selection, force=True, options=options or None))


def every_operation(control: Control) -> None:
    """Does each operation, and undoes it where that is possible. Raises the first refusal at the end."""
    refused: list[str] = []
    steps: list[tuple[Action, Box | None, dict[str, Any]]] = [
        *((action, box, {}) for action, box in (
            (Action.PURGE, Box.TMP), (Action.PURGE, Box.NEW), (Action.HOLD, Box.NEW), (Action.HOLD, Box.CUR),
            (Action.REQUEUE, Box.CUR), (Action.RELEASE, Box.HELD), (Action.RESTORE, Box.TRASH))),
        (Action.INJECT, None, {"count": 2}), (Action.SET_CURSOR, None, {"source": "email", "value": 9}),
    ]  # fmt: skip
    for action, box, options in steps:
        def change_and_undo(action: Action = action, box: Box | None = box, options: dict[str, Any] = options) -> None:
            result = change(control, action, box, **options)
            if result.undo and box is not None:
                change(control, Action.UNDO, undoes=result.operation)

        tell(refused, change_and_undo)
    control.operations()
    if refused:
        raise SpooltopError(refused[0])


def _socket(path: Path, ground: Ground) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(ground.path / "s"))  # an address has an end, after 107 bytes
    os.rename(ground.path / "s", path)


def _sparse(path: Path, ground: Ground) -> None:
    path.touch()
    os.truncate(path, HUGE)


THINGS: dict[str, Callable[[Path, Ground], None]] = {
    "link": lambda path, ground: path.symlink_to(ground.precious),
    "link to a folder": lambda path, ground: path.symlink_to(ground.outside),
    "dangling link": lambda path, ground: path.symlink_to("/nothing/here"),
    "link to itself": lambda path, ground: path.symlink_to(path.name),
    "hard link": lambda path, ground: path.hardlink_to(ground.precious),
    "fifo": lambda path, ground: os.mkfifo(path),
    "socket": _socket,
    "terminal": lambda path, ground: os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(5, 0)),
    "zeros": lambda path, ground: os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(1, 5)),
    "disk": lambda path, ground: os.mknod(path, 0o666 | stat.S_IFBLK, os.makedev(7, 0)),
    "folder": lambda path, ground: path.mkdir(),
    "sparse": _sparse,
}
WHOLE = bool(os.environ.get("SPOOLTOP_WHOLE"))
"""All things in all places, which takes three minutes; else those of each kind."""
FEW = THINGS if WHOLE else ("link", "hard link", "fifo", "zeros", "sparse")
NO_MESSAGE = [thing for thing in THINGS if thing != "sparse"]
QUICK = ("link",)


def each(things: Iterable[str]) -> list[Any]:
    """The things as parameters, those long that a plain run leaves out."""
    return [thing if thing in QUICK else pytest.param(thing, marks=pytest.mark.long) for thing in things]


@pytest.fixture(params=["root", "nobody"])
def ground(request: pytest.FixtureRequest) -> Iterator[Ground]:
    base = Path(tempfile.mkdtemp(prefix="spooltop-hostile-", dir="/tmp"))
    os.chmod(base, 0o755)
    before = os.umask(0o022)
    yield Ground(base, request.param)
    os.umask(before)
    shutil.rmtree(base)


@pytest.fixture(scope="module", autouse=True)
def loaded(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Loads what is loaded late: in a child that is nobody, the interpreter's own files may be out of reach."""
    for encoding in ("utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"):
        json.loads("{}".encode(encoding))
    ground = Ground(tmp_path_factory.mktemp("loaded"), "root")
    with ground.control() as control:
        session(control, every_operation, [])


def plant(ground: Ground, place: str, thing: str) -> Path:
    path = ground.path / place
    path.parent.mkdir(exist_ok=True)
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    THINGS[thing](path, ground)
    ground.settle()
    return path


@pytest.mark.parametrize("thing", THINGS)
def test_in_the_boxes(ground: Ground, thing: str) -> None:
    places = ["tmp/x", "new/x", "cur/x:2,P999999", f"cur/1795222800000000.P7R{7:016x}.vm,c={'a' * 32}.1795222800000001:2,P9"]
    planted = [plant(ground, place, thing) for place in places]
    before = [path.lstat().st_ino for path in planted]
    ground.run(every_operation)
    if thing in NO_MESSAGE:
        assert [path.lstat().st_ino for path in planted] == before
    else:
        sizes = [path.stat() for path in ground.path.rglob("*") if path.is_file() and path.stat().st_size == HUGE]
        assert {found.st_ino for found in sizes} == set(before), "a message of 10 GB is moved and never copied"
        assert all(found.st_blocks == 0 for found in sizes)


@pytest.mark.parametrize("thing", each(thing for thing in FEW if thing in NO_MESSAGE))
@pytest.mark.parametrize("box", [*LIVE, ".spooltop", ".spooltop/trash", ".spooltop/held", ".spooltop/consumers"])
def test_as_a_box_or_beside_the_boxes(ground: Ground, box: str, thing: str) -> None:
    ground.write("cur/x:2,P999999", "data")
    planted = plant(ground, box, thing)
    kind = stat.S_IFMT(planted.lstat().st_mode)
    said = ground.run(every_operation)
    assert stat.S_IFMT(planted.lstat().st_mode) == kind
    if thing != "folder" and box != ".spooltop/consumers":
        assert said


@pytest.mark.parametrize("thing", each([*FEW, "nothing"]))
@pytest.mark.parametrize(
    "place", ["cursors.json", ".cursors.lock", ".cursors.journal", "cursors", "x.lock", ".spooltop/format",
              ".spooltop/journal.jsonl", ".spooltop/cursors.jsonl",
              ".spooltop/consumers/" + "a" * 32],
)  # fmt: skip
def test_as_a_file_beside_the_boxes(ground: Ground, place: str, thing: str) -> None:
    if place != "cursors.json":
        ground.write("cursors.json", '{"email": 7}')
    ground.write(f"cur/1795222800000000.P7R{7:016x}.vm,c={'a' * 32}.1795222800000001:2,P9", "data")
    (ground.path / place).parent.mkdir(parents=True, exist_ok=True)
    if thing == "nothing":
        ground.settle()
    else:
        plant(ground, place, thing)
    ground.run(every_operation)


@contextmanager
def another_process(act: Callable[[str], None]) -> Iterator[Callable[[str], object]]:
    """Yields a function that has another process, which is root, do ``act`` with a word, and returns once it is done."""
    (word, words), (done, answers) = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(words)
            if said := os.read(word, 64).decode():
                act(said)
            os.write(answers, b"x")
        finally:
            os._exit(0)
    os.close(word)
    os.close(answers)
    yield lambda said: (os.write(words, said.encode()), os.read(done, 1))
    os.close(words)
    os.close(done)
    os.waitpid(pid, 0)


@pytest.mark.parametrize("swapped", ["new", "cur", ".spooltop", ".spooltop/trash", ".spooltop/trash/OPERATION", "."])
def test_a_folder_that_is_swapped_for_a_link_leads_nowhere(ground: Ground, swapped: str) -> None:
    for name in ("good", ".good.meta"):
        (ground.outside / name).write_text("outside")
    ground.settle()

    def swap(operation: str) -> None:
        path = Path(os.path.normpath(ground.path / swapped.replace("OPERATION", operation)))
        os.rename(path, f"{path}.away")
        path.symlink_to(ground.outside)

    def work(control: Control) -> None:
        first = control.apply(control.plan(Action.PURGE, Selection(ids=("good",), box=Box.NEW)))
        assert first.count(Outcome.DONE) == 1
        back = control.plan(Action.UNDO, Selection(), options={"undoes": first.operation})
        swap_now(first.operation)
        result = control.apply(back)
        assert result.count(Outcome.DONE) == (swapped == "cur"), result
        every_operation(control)

    with another_process(swap) as swap_now:
        ground.run(work)
    assert sorted(os.listdir(ground.outside)) == [".good.meta", "good", "precious"]


@pytest.mark.parametrize("where", ["trash", "held", "rejected"])
@pytest.mark.parametrize("origin", ["../outside/precious", "/etc/passwd", "new/a\\x00b", "held/" + "o" * 65 + "/x"])
def test_forged_metadata_lead_nowhere(ground: Ground, where: str, origin: str) -> None:
    folder = ground.path / ".spooltop" / where / "op"
    folder.mkdir(parents=True)
    for name in ("x", "link"):
        meta = {"schema": 1, "from": origin, "origin": origin, "name": origin, "box": origin, "at": 1e300, "reason": "\x1b[2J",
                "who": ["x"], "operation": "../.."}  # fmt: skip
        (folder / f".{name}.meta").write_text(json.dumps(meta))
    (folder / "x").write_text("data")
    (folder / "link").symlink_to(ground.precious)
    ground.settle()

    def work(control: Control) -> None:
        for action, box in ((Action.RESTORE, Box(where)), (Action.RELEASE, Box.HELD), (Action.REQUEUE, Box.REJECTED)):
            tell(reasons, partial(change, control, action, box))
        assert all(reason.isprintable() for reason in reasons)

    reasons: list[str] = []
    ground.run(work)
    assert (folder / "link").is_symlink()
    [kept] = [path for path in ground.path.rglob("x*") if path.is_file() and not path.name.endswith(".meta")]
    assert kept.read_text() == "data"
