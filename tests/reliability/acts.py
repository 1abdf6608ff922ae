"""The operations as commands, each on a spool of its own that is made ready for it, and what has to be true of it afterwards."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TextIO
from unittest.mock import patch

from spooltop.engine import Spool
from spooltop.errors import SpooltopError

from .forked import command
from .world import CURSORS, LOCK, body, build, leave_lock

__all__ = ["ACTS", "NAMES", "NOTHING", "Ground", "do"]

LABELS = ("d1", "m1", "m2", "m3")
INJECTED = "injected by a test"
PAUSED = ".spooltop/paused"
PAUSE = {"by": "ann", "at": 1.0, "reason": "a test"}
OPERATION = re.compile(r"operation ([0-9a-f]+)")

ACTS: dict[str, tuple[str, ...]] = {
    "requeue": ("requeue", "ROOT", "--verdict", "dead", "--yes"),
    "purge": ("purge", "ROOT", "--box", "new", "ALL", "--yes"),
    "hold": ("hold", "ROOT", "--box", "new", "ALL", "--yes"),
    "reject": ("a consumer rejects", "ROOT"),
    "inject": ("inject", "ROOT", "--count", "2", "--text", INJECTED, "--yes"),
    "undo": ("undo", "ROOT", "OPERATION", "--yes"),
    "empty the trash": ("purge", "ROOT", "--box", "trash", "ALL", "--yes"),
    "set a cursor": ("cursors", "ROOT", "--set", "email=9", "--yes"),
    "release": ("release", "ROOT", "ALL", "--yes"),
    "restore": ("restore", "ROOT", "--box", "trash", "ALL", "--yes"),
    "unlock": ("unlock", "ROOT", LOCK, "--yes"),
    "pause": ("pause", "ROOT", "--reason", "a test", "--yes"),
    "resume": ("resume", "ROOT", "--yes"),
    "undo a resume": ("undo", "ROOT", "OPERATION", "--yes"),
    "recover": ("a consumer recovers", "ROOT"),
    "put by key": ("a producer puts by a key", "ROOT"),
}
COMMON = "as of very many"
"""Variant of an act in which the messages share their metadata, kept beside their folder."""
ACTS |= {f"{act}, {COMMON}": (COMMON, *ACTS[act]) for act in ("purge", "empty the trash")}
NAMES = tuple(ACTS)
FIRST = {
    **dict.fromkeys(("undo", "empty the trash", "restore"), ("purge", "ROOT", "--box", "new", "ALL", "--yes")),
    "release": ("hold", "ROOT", "--box", "new", "ALL", "--yes"),
    "resume": ("pause", "ROOT", "--reason", "a test", "--yes"),
    "undo a resume": ("resume", "ROOT", "--yes"),
}
"""Commands run before the act that are not part of it."""


def _reject(spool: Spool) -> int:
    spool.recover()
    claim = spool.claim()
    if claim is not None:
        with claim:  # an error releases it: it is not left to the end of the process
            claim.reject("no use for it")
    return 0


def _recover(spool: Spool) -> int:
    return 0 if spool.recover() else NOTHING


def _put_by_key(spool: Spool) -> int:
    return 0 if spool.put(body("k1"), key="k1") else 1


IN_PYTHON: dict[str, Callable[[Spool], int]] = {
    "a consumer rejects": _reject, "a consumer recovers": _recover, "a producer puts by a key": _put_by_key,
}  # fmt: skip
NOTHING = 4
"""The exit code where there was nothing to do it to: what nobody can judge is not dead."""


def do(words: Sequence[str], out: TextIO, err: TextIO) -> int:
    """A command, or what a consumer does, in this process; the exit code."""
    if words[0] == COMMON:
        with patch("spooltop.backends.directory.operator.moving._SMALL", 0):
            return do(words[1:], out, err)
    if words[0] not in IN_PYTHON:
        return command(words, out, err)
    try:
        with Spool(words[1]) as spool:
            return IN_PYTHON[words[0]](spool)
    except SpooltopError as error:
        err.write(f"spooltop: {error}\n")
        return 1


class Ground:
    """The spool of one act."""

    def __init__(self, act: str, folder: Path) -> None:
        self.root, self.template = folder / "spool", folder / "template"
        self.act, _, common = act.partition(", ")
        self._how = (common,) if common else ()
        self._act = ACTS[act]
        folder.mkdir()
        build(self.template, False)
        (self.template / ".cursors.lock").touch()
        if self.act == "unlock":
            leave_lock(self.template)
        if self.act == "undo a resume":
            (self.template / PAUSED).write_text(json.dumps(PAUSE))
        self.operation = ""
        self._ready: frozenset[tuple[str, int, int, int]] = frozenset()

    def make(self) -> list[str]:
        """Makes it anew, unless it is as it was made; the words of the act."""
        if self._ready and self.untouched:
            return self.words(*self._act)
        shutil.rmtree(self.root, ignore_errors=True)
        shutil.copytree(self.template, self.root)
        if self.act in FIRST:
            code, out, err = self._run(*self._how, *FIRST[self.act])
            found = OPERATION.search(out)
            assert code == 0 and found is not None, err
            self.operation = found[1]
        self._ready = self._state()
        return self.words(*self._act)

    def _state(self) -> frozenset[tuple[str, int, int, int]]:
        """Every name below it, with what file it is and when that was written last."""
        found = []
        for folder, folders, files in os.walk(self.root):
            for name in (*folders, *files):
                at = os.lstat(path := os.path.join(folder, name))
                found.append((path, at.st_ino, at.st_size if name in files else 0, at.st_mtime_ns))
        return frozenset(found)

    @property
    def untouched(self) -> bool:
        """True where it is as it was made: to do the act again is to do it for the first time."""
        return self._state() == self._ready

    def words(self, *words: str) -> list[str]:
        replaced = {"ROOT": str(self.root), "OPERATION": self.operation}
        return [replaced.get(word, word) for word in words]

    def _run(self, *words: str) -> tuple[int, str, str]:
        out, err = io.StringIO(), io.StringIO()
        return do(self.words(*words), out, err), out.getvalue(), err.getvalue()

    def census(self) -> dict[str, list[str]]:
        """Maps each message, by its content, to its places. A message that is whole nowhere goes by ``?``; ``tmp`` does not
        count."""
        found: dict[str, dict[int, str]] = {}
        aside = self.root / ".spooltop"
        for path in [*self.root.glob("new/*"), *self.root.glob("cur/*"), *aside.glob("held/*/[!.]*"),
                     *aside.glob("rejected/*/[!.]*"), *aside.glob("trash/*/[!.]*")]:  # fmt: skip
            data = path.read_bytes()
            label = data.decode(errors="replace").partition(":")[0]
            whole = data == body(label) if label in (*LABELS, "k1") else data == INJECTED.encode()
            found.setdefault(label if whole else "?", {})[path.stat().st_ino] = str(path.relative_to(self.root))
        return {label: sorted(places.values()) for label, places in found.items()}

    def lost(self) -> list[str]:
        """Returns the messages that are not in exactly one place."""
        census = self.census()
        wrong = [f"{places} hold a part of a message" for label, places in census.items() if label == "?"]
        for label in LABELS:
            places = census.get(label, [])
            gone = self.act == "empty the trash" and label != "d1"
            if len(places) != 1 and not (gone and not places):
                wrong.append(f"{label} stands in {places}")
        if len(census.get("k1", [])) > 1:
            wrong.append(f"k1 stands in {census['k1']}")
        try:
            cursors = json.loads((self.root / "cursors.json").read_text())
        except (OSError, ValueError) as error:
            return [*wrong, f"cursors.json: {error}"]
        if cursors not in (CURSORS, {**CURSORS, "email": 9}):
            wrong.append(f"the cursors are {cursors}")
        if (pause := self.pause()) is not None and (pause.get("reason"), bool(pause.get("by"))) != ("a test", True):
            wrong.append(f"the pause is {pause}")
        return wrong

    def pause(self) -> dict[str, Any] | None:
        """The content of the file of the pause; None if there is none."""
        file = self.root / PAUSED
        try:
            found = json.loads(file.read_text()) if file.exists() else None
        except ValueError:
            return {}
        return found if found is None or isinstance(found, dict) else {}

    @property
    def done(self) -> bool:
        """True where the act is done, whole."""
        census = self.census()
        where = {label: places[0] for label, places in census.items() if places}
        waiting = [label for label in LABELS if where.get(label, "").startswith("new/")]
        begun: dict[str, Callable[[], bool]] = {
            "requeue": lambda: waiting == list(LABELS),
            "purge": lambda: all(where[label].startswith(".spooltop/trash/") for label in LABELS[1:]),
            "hold": lambda: all(where[label].startswith(".spooltop/held/") for label in LABELS[1:]),
            "reject": lambda: any(place.startswith(".spooltop/rejected/") for place in where.values()),
            "inject": lambda: len(census.get(INJECTED, [])) == 2,
            "undo": lambda: waiting == list(LABELS[1:]),
            "empty the trash": lambda: not any(label in where for label in LABELS[1:]),
            "release": lambda: waiting == list(LABELS[1:]),
            "restore": lambda: waiting == list(LABELS[1:]),
            "unlock": lambda: not (self.root / LOCK).exists(),
            "pause": lambda: self.pause() is not None,
            "resume": lambda: self.pause() is None,
            "undo a resume": lambda: self.pause() == PAUSE,
            "recover": lambda: waiting == list(LABELS),
            "put by key": lambda: len(census.get("k1", [])) == 1 and census["k1"][0].startswith("new/"),
            "set a cursor": lambda: json.loads((self.root / "cursors.json").read_text())["email"] == 9,
        }
        return begun[self.act]()

    def finish(self) -> list[str]:
        """Does the act again, or takes it back, and returns what is wrong afterwards."""
        wrong = []
        code, _, err = self._run("ops", "ROOT")
        if code not in (0, 4):
            wrong.append(f"ops afterwards: {code} {err}")
        if self.act == "inject":
            wrong += self._injected_taken_back()
        elif not self.done:
            if self.act == "unlock":  # what the operator put in its place, who was killed, is as old
                os.utime(self.root / LOCK, (1.0, 1.0))
            code, out, err = self._run(*self._act, *(("--force",) if self.act == "unlock" else ()))
            if not self.done:
                wrong.append(f"again, it ends with {code} and is not done: {out} {err}")
        wrong += self.lost()
        if self.act != "reject":
            with Spool(self.root) as spool:
                spool.recover()
        wrong += [f"{path} is left in cur" for path in self.root.glob("cur/*") if self.act != "reject"]
        return wrong + self.lost()

    def _injected_taken_back(self) -> list[str]:
        """Takes back an inject that was cut off, as far as it came; an inject that never began is done anew."""
        if not self.census().get(INJECTED):
            code, _, err = self._run(*ACTS["inject"])
            return [] if self.done else [f"again, it ends with {code}: {err}"]
        code, out, _ = self._run("ops", "ROOT", "--json")
        operations = [json.loads(line) for line in out.splitlines()]
        if code or not operations:
            return [f"no operation is known, and yet there are {self.census()[INJECTED]}"]
        code, out, err = self._run("undo", "ROOT", operations[0]["operation"], "--yes")
        left = [place for place in self.census().get(INJECTED, []) if place.startswith("new/")]
        return [f"undo: {code} {out} {err}: {left} are left"] if left else []
