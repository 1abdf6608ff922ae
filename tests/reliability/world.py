"""A small spool, the operations on it, and what is known for certain of each message after a process was cut off.

The child that runs a sequence tells over a pipe when an operation begins and when it has returned. Whatever had returned must
hold, what was under way may have happened or not, and nothing may be there twice or in part.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from spooltop.backends.directory.processes import Processes
from spooltop.backends.directory.storage import OpenOptions
from spooltop.backends.directory.storage import System as Around
from spooltop.backends.log_store import LogFiles, LogStore
from spooltop.engine import CursorFile, Spool
from spooltop.engine.consumer import Claim
from spooltop.engine.dirs import SpoolDirs
from spooltop.locks.operator import LockOperator
from spooltop.model.plan import Outcome, Selection
from spooltop.model.vocabulary import Action, Box, Verdict
from spooltop.operate.operations import Operations

from .desk import Desk

__all__ = [
    "LOCK", "OPERATIONS", "Expected", "World", "after", "build", "drain", "killed_in_child", "leave_lock", "operations",
    "requeue_dead",
]  # fmt: skip

OPERATIONS = (
    "put", "put_by_key", "claim", "ack", "release", "reject", "recover", "requeue", "release_held", "restore", "unlock", "cursor",
)  # fmt: skip
"""Operations of producers, consumers and operators; ``release_held`` is an operator's ``release``."""
LOCK = "leader.lock"
"""A lock that nobody holds any more."""

CURSORS = {"email": 7, "imessage": 1}


def body(label: str) -> bytes:
    """Content of the message ``label``: so long that a part of it is recognised as one."""
    return f"{label}:".encode() + label[-1:].encode() * 5000


def build(root: Path, durable: bool, *, aside: bool = False) -> None:
    """Three messages that wait, one claimed by a consumer that died, and a cursor file. All of it synced. ``aside``: besides one
    that is held, one in the trash, and a stale lock."""
    with Spool.create(root, durable) as spool:
        spool.put_many([body("d1"), body("m1"), body("m2"), body("m3")])
    (root / "cursors.json").write_text(json.dumps(CURSORS))

    def die() -> None:
        claim = Spool(root, durable).claim()
        assert claim is not None
        os.kill(os.getpid(), signal.SIGKILL)

    assert killed_in_child(die)
    if aside:
        set_aside(root)
    if durable:
        os.sync()


def set_aside(root: Path) -> None:
    with Spool(root) as spool:
        held, trash = spool.put_many([body("h1"), body("t1")])
    desk = operations(root)
    for action, id in ((Action.HOLD, held), (Action.PURGE, trash)):
        result = desk.apply(desk.plan(action, Selection(box=Box.NEW, ids=(id,))))
        assert result.count(Outcome.DONE) == 1, result
    leave_lock(root)


def leave_lock(root: Path) -> None:
    """Leaves the lock of a leader whose lease has ended: it is stale wherever it is looked at from."""
    (root / LOCK).write_text('{"ownerId": "gone", "expiresAt": 1700000000000}')


def killed_in_child(work: Callable[[], None]) -> bool:
    """Runs ``work`` in a fork. True where a SIGKILL ended it, False where it came to its end. Raises where it failed."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
        except BaseException:  # noqa: BLE001  a child never runs on in its parent's place
            import traceback

            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    status = os.waitpid(pid, 0)[1]
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
        return True
    if status:
        raise AssertionError(f"the child failed: {status}")
    return False


def desk(root: Path, looking: LogFiles | None = None) -> Desk:
    return Desk(root, looking)


def operations(root: Path, files: LogFiles | None = None, looking: LogFiles | None = None) -> Operations:
    """An operator at the spool. ``looking`` are the file operations of the look."""
    return desk(root, looking).operations(files)


def requeue_dead(root: Path, files: LogFiles | None = None, looking: LogFiles | None = None) -> int:
    """Requeues the claims of the dead as an operator does, and returns how many went back."""
    desk = operations(root, files, looking)
    plan = desk.plan(Action.REQUEUE, Selection(box=Box.CUR, verdict=Verdict.DEAD))
    return desk.apply(plan).count(Outcome.DONE) if plan.items else 0


def whole_box(root: Path, action: Action, box: Box, files: LogFiles | None = None) -> None:
    """Applies an operator's action to everything in a box."""
    desk = operations(root, files)
    plan = desk.plan(action, Selection(box=box, everything=True))
    if plan.items:
        desk.apply(plan)


class Seeing(Processes):
    """Sees every process, also from within a container, as the first pid namespace does."""

    def in_first_namespace(self) -> bool:
        return True


def unlock(root: Path, files: LogFiles | None = None) -> None:
    """An operator removes the stale locks."""
    files = files or LogFiles()
    logs = LogStore(str(root), files, state_dir=f"{root}.state", opening=partial(SpoolDirs, str(root), files))
    operator = LockOperator(str(root), logs, OpenOptions(layout="locks"), Around(files, processes=Seeing()))
    desk = Operations(operator, str(root), time.time)
    plan = desk.plan(Action.UNLOCK, Selection(everything=True))
    if plan.items:
        desk.apply(plan)


class World:
    """Process at work: its spool, its claims, and ``tell``, which gets one line at a time."""

    def __init__(self, root: Path, files: LogFiles, durable: bool, tell: Callable[[str], None]) -> None:
        self.root, self.files, self.tell = root, files, tell
        self.spool = Spool(root, durable, files=files)
        self.cursors = CursorFile(root / "cursors.json", files=files)
        self.held: list[tuple[str, Claim]] = []
        self.made = 0

    def do(self, operation: str) -> None:
        """Does one operation. ``ack`` and ``release`` end the oldest claim, and take one first where none is held."""
        getattr(self, f"_{operation}")()

    def _put(self) -> None:
        self.made += 1
        label = f"p{self.made}"
        self.tell(f"put? {label}")
        self.spool.put(body(label))
        self.tell(f"put! {label}")

    def _claim(self) -> None:
        self.tell("claim?")
        claim = self.spool.claim()
        if claim is not None:
            self.held.append((claim.data.decode().partition(":")[0], claim))
        self.tell(f"claim! {self.held[-1][0] if claim is not None else ''}")

    def _ack(self) -> None:
        if not self.held:
            self._claim()
        label, claim = self.held.pop(0)
        self.tell(f"ack? {label}")
        claim.ack()
        self.tell(f"ack! {label}")

    def _release(self) -> None:
        if not self.held:
            self._claim()
        label, claim = self.held.pop(0)
        self.tell(f"release? {label}")
        claim.release()
        self.tell(f"release! {label}")

    def _put_by_key(self) -> None:
        self.made += 1
        label = f"k{self.made}"
        self.tell(f"put? {label}")
        self.spool.put(body(label), key=label)
        self.tell(f"put! {label}")

    def _reject(self) -> None:
        if not self.held:
            self._claim()
        label, claim = self.held.pop(0)
        self.tell(f"reject? {label}")
        claim.reject("on purpose")
        self.tell(f"reject! {label}")

    def _recover(self) -> None:
        self.tell("recover?")
        self.spool.recover()
        self.tell("recover!")

    def _release_held(self) -> None:
        self.tell("back? h1")
        whole_box(self.root, Action.RELEASE, Box.HELD, self.files)
        self.tell("back! h1")

    def _restore(self) -> None:
        self.tell("back? t1")
        whole_box(self.root, Action.RESTORE, Box.TRASH, self.files)
        self.tell("back! t1")

    def _unlock(self) -> None:
        self.tell("unlock?")
        unlock(self.root, self.files)
        self.tell("unlock!")

    def _requeue(self) -> None:
        self.tell("requeue?")
        requeue_dead(self.root, self.files)
        self.tell("requeue!")

    def _cursor(self) -> None:
        value = self.made + 100 + len(self.held)
        self.tell(f"cursor? {value}")
        self.cursors.advance("imessage", value)
        self.tell(f"cursor! {value}")


class Expected:
    """Expected state of the spool, derived from the lines that a process wrote."""

    def __init__(self, lines: Iterable[str], *, aside: bool = False) -> None:
        """``aside``: of a spool that was built so."""
        self.sure = {"d1", "m1", "m2", "m3"}
        """Messages that must come out, or be set aside."""
        self.maybe: set[str] = set()
        """Messages that may come out, once."""
        self.aside = {"h1", "t1"} if aside else set()
        """Messages that must be aside."""
        self.either: set[str] = set()
        """Messages that may be aside or come out."""
        self.keys: set[str] = set()
        """Messages that were to be put by a key, which is their label, and may be put again by it."""
        self.acked: set[str] = set()
        """Messages whose ack has begun."""
        self.unlocked: bool | None = False if aside else None
        """True where the stale lock must be gone, False where it must be there, None where it may be."""
        self.cursor = {CURSORS["imessage"]}
        """Values that the cursor may have."""
        self.sure |= self.aside
        for line in lines:
            word, _, label = line.partition(" ")
            if word in ("put?", "ack?"):
                self.sure.discard(label)
                self.maybe.add(label)
                if word == "ack?":
                    self.acked.add(label)
                elif label.startswith("k"):
                    self.keys.add(label)
            elif word == "put!":
                self.sure.add(label)
                self.maybe.discard(label)
            elif word == "ack!":
                self.maybe.discard(label)
            elif word in ("reject?", "back?"):
                self.aside.discard(label)
                self.either.add(label)
            elif word in ("reject!", "back!"):
                self.either.discard(label)
                if word == "reject!":
                    self.aside.add(label)
            elif word == "unlock?":
                self.unlocked = None
            elif word == "unlock!":
                self.unlocked = True
            elif word == "cursor?":
                self.cursor |= {int(label)}
            elif word == "cursor!":
                self.cursor = {int(label)}


def set_aside_now(root: Path) -> list[bytes]:
    return [path.read_bytes() for path in (root / ".spooltop").glob("*/*/[!.]*")]


def inodes(root: Path) -> dict[str, set[int]]:
    """The label of each message that stands in a box (not in ``tmp``) or aside, and the files that say it: two names of one file
    are one, as a move by link and unlink leaves them when it is cut off."""
    found: dict[str, set[int]] = {}
    for path in [*(root / "new").iterdir(), *(root / "cur").iterdir(), *(root / ".spooltop").glob("*/*/[!.]*")]:
        found.setdefault(path.read_bytes().decode().partition(":")[0], set()).add(path.lstat().st_ino)
    return found


def drain(root: Path) -> tuple[list[bytes], list[str]]:
    """Everything that comes out of a spool when its dead are recovered, and what has two names even then."""
    out = []
    with Spool(root, False) as spool:
        spool.recover()
        two = [str(path) for box in ("tmp", "new", "cur") for path in (root / box).iterdir() if path.lstat().st_nlink > 1]
        for claim in spool.claims():
            out.append(claim.data)
            claim.ack()
    return out, two


def after(root: Path, expected: Expected) -> list[str]:
    """Returns what is wrong with a spool after its process was cut off; empty where all is as it must be. Takes everything
    out."""
    wrong = []
    for box in ("new", "cur"):
        for path in (root / box).iterdir():
            data = path.read_bytes()
            if data != body(data.decode().partition(":")[0] or "?"):
                wrong.append(f"{box} shows {len(data)} bytes of a message")
    shown = inodes(root)
    wrong += [f"{label} stands in {len(found)} files" for label, found in shown.items() if len(found) > 1]
    with Spool(root, False) as spool:
        for key in sorted(expected.keys):  # by the key it is one message, however far the first put came, and after its ack none
            spool.put(body(key), key=key)
    sure = expected.sure | (expected.keys - expected.acked)
    if expected.either & {"h1", "t1"} and any(path.lstat().st_nlink > 1 for path in (root / "new").iterdir()):
        # Between the link and the unlink of a file system that has no other way: what an operator was killed in, the next change
        # of an operator ends. A consumer that is quicker takes what is visible, and the name that was left is there again.
        whole_box(root, Action.RELEASE, Box.HELD) if "h1" in expected.either else whole_box(root, Action.RESTORE, Box.TRASH)
    drained, two = drain(root)
    wrong += [f"{name} has two names after a recover" for name in two]
    out, aside = (Counter(data.decode().partition(":")[0] for data in found) for found in (drained, set_aside_now(root)))
    got = out + aside
    wrong += [f"{label} is lost" for label in sorted(sure - set(got))]
    wrong += [f"{label} was there and has vanished" for label in sorted(set(shown) - sure - set(got))]
    wrong += [f"{label} came {count} times" for label, count in got.items() if count > 1]
    wrong += [f"{label} came back" for label in sorted(set(got) - sure - expected.maybe)]
    wrong += [f"{label} came out, and was set aside" for label in sorted(set(out) & expected.aside)]
    wrong += [f"{label} is set aside" for label in sorted(set(aside) - expected.aside - expected.either)]
    wrong += _lock_wrong(root, expected)
    wrong += [f"{path.name} is left in cur" for path in (root / "cur").iterdir()]
    try:
        cursors = json.loads((root / "cursors.json").read_text())
    except ValueError:
        return [*wrong, "cursors.json does not parse"]
    if cursors.get("email") != CURSORS["email"] or cursors.get("imessage") not in expected.cursor:
        wrong.append(f"the cursors are {cursors}, not {sorted(expected.cursor)}")
    return wrong


def _lock_wrong(root: Path, expected: Expected) -> list[str]:
    """A stale lock stands until it is removed, and one whose removal was cut off can be removed again."""
    if (root / LOCK).exists() is expected.unlocked:
        return [f"{LOCK} {'stands' if expected.unlocked else 'has gone'}"]
    if expected.unlocked is None and (root / LOCK).exists() and (root / LOCK).read_text().partition("\n")[0] != str(os.getpid()):
        os.utime(root / LOCK, (1.0, 1.0))  # what an operator put in its place, who was killed, is as old
        unlock(root)
        return [f"{LOCK} cannot be removed any more"] if (root / LOCK).exists() else []
    return []
