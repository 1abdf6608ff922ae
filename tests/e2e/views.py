"""A spool with something in each view, and the bytes that a switch from each view to each other one takes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from spooltop.engine import Spool

from .terminal import Terminal

__all__ = ["switches", "whole_spool"]

VIEWS = {"1": " box       depth", "2": " New ", "3": " Claims 1", "4": " Tmp 9", "5": " Cursors 5", "6": " Locks 1",
         "7": " Aside ", "8": " Consumers 1"}  # fmt: skip
"""A text of each view of ``whole_spool`` by its key, which no panel of another view has."""
_SOURCES = ("imessage", "teams", "signal", "email", "messenger")
_CLAIMED, _SET_ASIDE, _WRITING = 12, 8, 9


def whole_spool(path: Path, messages: int) -> None:
    """Fills a new spool: messages that wait, claims of a dead consumer, drafts, what was rejected, cursors and a lock."""
    payload = b'{"source": "%s", "rowid": %d, "text": "the quick brown fox jumps over the lazy dog", "at": 1795222801}'
    with Spool.create(str(path), durable=False) as spool:
        for at, source in enumerate(_SOURCES):
            spool.put_many((payload % (source.encode(), at) for _ in range(at, messages, len(_SOURCES))), source=source)
        for _, claim in zip(range(_SET_ASIDE), spool.claims(), strict=False):
            claim.reject("exit-1")
        dead = subprocess.Popen([sys.executable, "-c", ""])
        dead.wait()
        for name in sorted(os.listdir(path / "new"))[:_CLAIMED]:
            os.rename(path / "new" / name, path / "cur" / f"{name}:2,P{dead.pid}")
        for at in range(_WRITING):
            (path / "tmp" / f"179522280{at}.{dead.pid}.{os.uname().nodename}").write_bytes(b"x" * 100 * at)
    cursors = ", ".join(f'"{source}": {89632 + 1000 * at}' for at, source in enumerate(_SOURCES))
    (path / "cursors.json").write_text(f"{{{cursors}}}")
    (path / "leader.lock").write_text(f"{dead.pid}\n{os.uname().nodename}\n")


def switches(screen: Terminal, still: float) -> dict[str, int]:
    """Bytes to the terminal from the key of each view to the end of what it draws, by the keys of the view before and its own.
    Nothing comes for ``still`` seconds before a key and at the end."""
    keys = _tour(tuple(VIEWS))
    before = keys[0]
    _show(screen, before, still)
    found = {}
    for key in keys[1:]:
        written = len(screen.raw)
        _show(screen, key, still)
        found[before + key] = len(screen.raw) - written
        before = key
    return found


def _tour(keys: tuple[str, ...]) -> list[str]:
    """Each key after each other one, once."""
    tour = [keys[0]]
    for at, key in enumerate(keys[:-1]):
        for further in keys[at + 2 :]:
            tour += [further, key]
        tour.append(keys[at + 1])
    return [*tour, *reversed(keys[:-1])]


def _show(screen: Terminal, key: str, still: float) -> None:
    screen.type(key)
    screen.wait_for(VIEWS[key])
    while screen.pump(still):
        continue
