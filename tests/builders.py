"""Builders of small worlds: a queue of each kind in a folder of its own, what happens to it, and a census of what it holds.

They import the engine, the model and ``spooltop.control`` alone, so that a test which stands on them survives a change of what
lies between.

>>> import tempfile
>>> with tempfile.TemporaryDirectory() as folder, SpoolWorld(folder) as world:
...     _ = world.put("waiting", "content")
...     world.census()
{'content': ['new/waiting']}
"""

from __future__ import annotations

import atexit
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from spooltop.control import Control, open_control
from spooltop.engine import Spool
from spooltop.model.plan import Plan, Result, Selection
from spooltop.model.vocabulary import ASIDE, LIVE, Action, Box
from tests.clock import NOW
from tests.scratch import extract

__all__ = [
    "ALL", "GONE", "LAYOUTS", "STORED", "CursorWorld", "LayoutWorld", "LockWorld", "SpoolWorld", "TicketWorld", "World",
    "message_id", "stored",
]  # fmt: skip

ALL = Selection(everything=True)
GONE = (1 << 22) - 1
"""The greatest pid there can be, which no process has. Outside the first pid namespace its end is not known, and needs force."""
STORED = Path(__file__).parent / "data" / "spools.tar.gz"
ROOT_STATE = "/var/lib/spooltop"
OWN = ".spooltop"
DRAFT = re.compile(r"\..*\.[0-9a-f]{16}")
SECTIONS: Mapping[str, Any] = {"imessage": {"last_rowid": 89632}, "mail": {"uid": 7}}

LIVING = """
import sys
from spooltop.engine import Spool
spool = Spool(sys.argv[1], False)
claims = [spool.claim() for _ in range(int(sys.argv[2]))]
assert None not in claims
print("claimed", flush=True)
sys.stdin.read()
"""


def message_id(number: int) -> str:
    """Returns an id in the protocol's own form."""
    return f"{1795222800000000 + number:016d}.P77R{number:016x}.vm"


class World:
    """Queue below ``folder``. ``options`` are those that ``open_control`` needs for it.

    ``path`` is the queue, ``state`` the directory for the state of the user who operates it.
    """

    options: Mapping[str, Any] = {}
    registers: tuple[str, ...] = ()
    """Folders of the queue in which its program keeps books of its messages, which no census counts."""

    def __init__(self, folder: str | Path) -> None:
        self.path, self.state = Path(folder, "queue"), Path(folder, "state")
        self.path.mkdir(parents=True)
        self._processes: list[subprocess.Popen[str]] = []
        self.build()

    def build(self) -> None:
        """Makes the queue in ``path``."""

    @property
    def target(self) -> str:
        """What ``open_control`` takes."""
        return str(self.path)

    @property
    def settings(self) -> dict[str, str]:
        """The only settings of the user."""
        return {"XDG_STATE_HOME": str(self.state)}

    def control(self, **options: Any) -> Control:
        return open_control(self.target, **{"watch": False, "settings": self.settings, **self.options, **options})

    def do(self, action: Action, selection: Selection = ALL, *, force: bool = False, **options: Any) -> tuple[Plan, Result]:
        """Plans and applies an action by a Control of its own."""
        with self.control() as control:
            plan = control.plan(action, selection, force=force, options=options)
            return plan, control.apply(plan)

    def undo(self, operation: str, *, force: bool = False) -> tuple[Plan, Result]:
        return self.do(Action.UNDO, Selection(), force=force, undoes=operation)

    # What it holds

    def write(self, name: str, content: str) -> Path:
        """Writes a file of the queue by its path in it."""
        file = self.path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content, encoding="utf-8", errors="surrogateescape")
        return file

    def cursors(self, **sections: Any) -> Path:
        """Writes a cursor file with a section for each source."""
        return self.write("cursors.json", json.dumps(sections or SECTIONS, indent=2))

    def soft_lock(self, name: str, pid: int = GONE, age: float = 400) -> Path:
        """Makes a lock that is there as long as its file, which names its holder."""
        file = self.write(name, f"{pid}\n{os.uname().nodename}\n1\n")
        os.utime(file, (NOW - age, NOW - age))
        return file

    def ticket(self, number: int, pid: int = GONE, queue: str = "job.lock.queue") -> Path:
        """Makes a ticket of a ticket queue."""
        self.write(f"{queue}/seq", "9")
        return self.write(f"{queue}/{number:020d}.{pid}.{number:032x}", "0")

    def census(self) -> dict[str, list[str]]:
        """Content of each file of the queue → the places of it, in the queue or set aside: one an inode, its names joined by
        " = ". Files of spooltop's own and registers of the queue's program do not count."""
        names: dict[int, list[str]] = {}
        contents: dict[int, str] = {}
        for file in self._files():
            inode = file.lstat().st_ino
            above = self.path if self.path in file.parents else self.path.parent
            names.setdefault(inode, []).append(str(file.relative_to(above)))
            contents[inode] = file.read_bytes().decode("utf-8", "surrogateescape")
        census: dict[str, list[str]] = {}
        for inode, content in contents.items():
            census.setdefault(content, []).append(" = ".join(sorted(names[inode])))
        return {content: sorted(places) for content, places in sorted(census.items())}

    def tree(self) -> dict[str, str]:
        """Path → content of each file of the queue, "/" for a directory, after the number of its names; without what is
        spooltop's own."""
        rows = {}
        for path in sorted(self.path.rglob("*")):
            name = path.relative_to(self.path)
            if name.parts[0] == OWN or name.name.startswith(".cursors.") or DRAFT.fullmatch(name.name):
                continue
            if path.is_dir():
                rows[str(name)] = "/"
            elif path.is_file():
                rows[str(name)] = f"{path.stat().st_nlink} {path.read_bytes()!r}"
        return rows

    def set_aside(self) -> dict[str, str]:
        """Path → content of each file that was set aside."""
        return {
            str(file.relative_to(self._own)): file.read_text(errors="surrogateescape")
            for box in ASIDE
            for file in sorted((self._own / box).rglob("*"))
            if file.is_file() and ".meta" not in file.name
        }

    @property
    def _own(self) -> Path:
        """The directory of spooltop's own: in the queue or, for a queue without room for it, beside it."""
        beside = self.path.parent / f".{self.path.name}{OWN}"
        return beside if beside.exists() else self.path / OWN

    def _files(self) -> Iterator[Path]:
        for file in self.path.parent.rglob("*"):
            parts = file.relative_to(self.path.parent).parts
            if file.is_file() and not file.is_symlink() and not set(self.registers) & set(parts) and self._counts(parts):
                yield file

    def _counts(self, parts: Sequence[str]) -> bool:
        """True for a path of the queue, and for one of what was set aside but for its metadata. Drafts that a process left do not
        count."""
        if DRAFT.fullmatch(parts[-1]):
            return False
        own = (place for place, name in enumerate(parts) if name.endswith(OWN) or name.startswith(f"{OWN}."))
        aside = next((parts[place + 1 :] for place in own), None)
        if aside is None:
            return parts[0] == self.path.name and not parts[-1].startswith(".cursors.")
        return len(aside) > 2 and aside[0] in ASIDE and ".meta" not in aside[-1]

    def logs_of_root(self) -> list[Path]:
        """Lists the directories of root's logs of it, which root keeps outside a queue of another user."""
        mark = sha256(os.fsencode(os.path.realpath(self.path))).hexdigest()[:16]
        return list(Path(ROOT_STATE).glob(f"*-{mark}")) if os.geteuid() == 0 else []

    # The end

    def kill(self, process: subprocess.Popen[str]) -> None:
        """Kills a process and waits for its end."""
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()

    def close(self) -> None:
        """Ends the processes and removes the queue with all that belongs to it, root's logs of it too."""
        for process in self._processes:
            self.kill(process)
        for folder in (self.path, self.state, self._own, *self.logs_of_root()):
            shutil.rmtree(folder, ignore_errors=True)

    def __enter__(self) -> World:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class SpoolWorld(World):
    """Spool with the boxes tmp, new and cur, messages in every state, and consumers."""

    def build(self) -> None:
        Spool.create(self.path, False).close()

    def put(self, name: str, content: str = "", box: Box = Box.NEW) -> str:
        """Puts a message under a name that may be foreign; its content is its name where none is given."""
        self.write(f"{box}/{name}", content or name)
        return name

    def put_aside(self, box: Box, name: str, content: str = "", folder: str = "f1", **meta: Any) -> str:
        """Puts a message into ``held``, ``rejected`` or ``trash``, with its metadata: ``origin="cur"``."""
        self.write(f"{OWN}/{box}/{folder}/.{name}.meta", json.dumps(meta or {"origin": "new"}))
        self.write(f"{OWN}/{box}/{folder}/{name}", content or name)
        return name

    def claim_foreign(self, name: str, content: str = "", pid: int = GONE) -> str:
        """Makes the claim of another program by its pid, and returns its name in ``cur``."""
        return self.put(f"{name}:2,P{pid}", content or name, Box.CUR)

    def claim_dead(self, count: int = 1) -> list[str]:
        """Has a consumer claim the ``count`` oldest messages and die; returns their names in ``cur``."""
        before = set(os.listdir(self.path / "cur"))
        pid = os.fork()
        if pid == 0:
            try:
                spool = Spool(self.path, False)
                claims = [spool.claim() for _ in range(count)]
                os._exit(1 if None in claims else 0)  # no finaliser gives them back
            finally:
                os.kill(os.getpid(), signal.SIGKILL)
        assert os.waitpid(pid, 0)[1] == 0
        return sorted(set(os.listdir(self.path / "cur")) - before)

    def claim_living(self, count: int = 1) -> tuple[subprocess.Popen[str], list[str]]:
        """Has a consumer claim the ``count`` oldest messages and live on; returns its process and their names in ``cur``."""
        before = set(os.listdir(self.path / "cur"))
        command = [sys.executable, "-c", LIVING, str(self.path), str(count)]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._processes.append(process)
        assert process.stdout is not None and process.stdout.readline() == "claimed\n"
        return process, sorted(set(os.listdir(self.path / "cur")) - before)

    def names(self, box: Box) -> list[str]:
        """Lists the names of the messages in a box."""
        folders = [self.path / box] if box in LIVE else (self._own / box).glob("[!.]*")
        return sorted(name for folder in folders for name in os.listdir(folder) if not name.startswith("."))


class CursorWorld(World):
    """Cursor file alone, with a section for each of two sources."""

    def build(self) -> None:
        self.cursors()

    @property
    def target(self) -> str:
        return str(self.path / "cursors.json")

    def sections(self) -> Any:
        return json.loads((self.path / "cursors.json").read_text())


class LockWorld(World):
    """Directory of lock files, which ``soft_lock`` and ``ticket`` make."""

    options: Mapping[str, Any] = {"locks": True}


class TicketWorld(LockWorld):
    """Ticket queue alone, whose head is of a process that died."""

    options: Mapping[str, Any] = {}

    def build(self) -> None:
        self.ticket(1, queue=".")
        self.ticket(2, os.getpid(), queue=".")


# Layouts of other programs


def stored(path: Path, name: str) -> None:
    """Makes a queue that its own program wrote, with the files that have several names."""
    copies: dict[int, str] = {}

    def copied(source: str, to: str) -> None:
        first = copies.setdefault(os.lstat(source).st_ino, to)
        if first != to:
            os.link(first, to)
        else:
            shutil.copy2(source, to, follow_symlinks=False)

    shutil.copytree(_unpacked(name) / name, path, symlinks=True, copy_function=copied, dirs_exist_ok=True)


@cache
def _unpacked(name: str) -> Path:
    """Unpacks a queue, once in each process: the sweeps want it hundreds of times."""
    folder = TemporaryDirectory(prefix="stored.")
    atexit.register(folder.cleanup)
    with tarfile.open(STORED) as archive:
        extract(archive, folder.name, [member for member in archive.getmembers() if member.name.partition("/")[0] == name])
    return Path(folder.name)


def dirq_normal(path: Path) -> None:
    """Makes two elements as the library writes them, and a third one that is locked."""
    for name in ("temporary", "obsolete"):
        (path / name).mkdir(parents=True)
    for name in ("6b00e5b7c2149f", "6b00e5b7c2217f", "6b00e5b7c22b9f"):
        element = path / "6b00e590" / name
        element.mkdir(parents=True)
        (element / "body").write_text(f"body of {name}")
    (path / "6b00e590/6b00e5b7c2149f/locked").mkdir()


def huey(path: Path) -> None:
    """Makes a queue with a task whose dequeue died after it had renamed it."""
    stored(path, "huey_filestorage")
    task = path / "queue/ffff-01a1fb81560d"
    task.rename(path / "queue/ffff-01a1fb81560d.tmp")


def kombu(path: Path, folder: str = "in") -> None:
    for place, name in ((1, folder), (2, folder), (3, "processed")):
        (path / name).mkdir(parents=True, exist_ok=True)
        (path / name / f"{place}_0b0c3f6e-1c1e-4e7c-9d7e-1f3b5a7c9d0{place}.celery.msg").write_text(json.dumps({"body": place}))
    (path / "control").mkdir()


def mailman(path: Path) -> None:
    """Makes a file in each state: begun, waiting, claimed, shunted, and one that could not be read."""
    for name in ("in", "out", "pipeline", "shunt", "bad"):
        (path / name).mkdir(parents=True)
    for place, name in enumerate(("in/{}.pck.tmp", "in/{}.pck", "out/{}.bak", "shunt/{}.pck", "bad/{}.psv")):
        (path / name.format(f"1795220920.{place}+{place:040x}")).write_text(f"message {place}")


def nq(path: Path) -> None:
    path.mkdir(parents=True, exist_ok=True)
    (path / ",1a1fb81560d.4000077").write_text("exec nq true\n\n[exited with status 3.]\n")
    (path / ",1a1fb81560d.4000077").chmod(0o600)
    (path / ",1a1fb81560e.4000078").write_text("exec nq never\n")


def nullmailer(path: Path) -> None:
    for name in ("queue", "failed", "tmp"):
        (path / name).mkdir(parents=True)
    os.mkfifo(path / "trigger", 0o600)
    (path / "queue/1795220920.77").write_text("to be sent")
    (path / "failed/1795220921.78").write_text("not sent")


LAYOUTS: Mapping[str, Callable[[Path], None]] = {
    "job-queue": partial(stored, name="jobqueue_filestorage"), "dirq-simple": partial(stored, name="dirq_simple"),
    "dirq-normal": dirq_normal, "huey": huey, "kombu": kombu, "kombu-out": partial(kombu, folder="out"), "mailman": mailman,
    "nq": nq, "nullmailer": nullmailer,
}  # fmt: skip
"""Makes a queue of each layout in an empty directory, with a message in every state that an operation begins with."""


class LayoutWorld(World):
    """Queue of another program, by the name of its layout."""

    registers = ("jobs",)

    def __init__(self, folder: str | Path, layout: str) -> None:
        self.layout = layout
        self.options = {"as_kind": layout}
        super().__init__(folder)

    def build(self) -> None:
        LAYOUTS[self.layout](self.path)
