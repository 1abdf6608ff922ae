"""Twenty seeded faults: each is put into a copy of spooltop, and the record of behaviour and the crash matrix must notice it.

    python -m tests.behaviour.faults [--all] [NAME …]

prints which instrument found each fault, and the first line that it said; the exit code is 0 where all were found. It stops at
the first instrument that finds a fault, with ``--all`` it runs every one. What finds something without any fault in the same run
finds none. A fault names its place by function and by the text that it changes there, never by file or line; the run
fails where that text is not there exactly once.
"""

from __future__ import annotations

import argparse
import ast
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.scratch import scratch

from .record import recorded_worlds

__all__ = ["FAULTS", "Fault", "copy_with", "difference", "patched", "words_of"]

_ROOT = Path(__file__).parents[2]
_LEFT_OUT = shutil.ignore_patterns(".git", ".venv", ".hypothesis", ".*_cache")


@dataclass(frozen=True)
class Fault:
    """In the function, method or constant ``place``, ``old`` is replaced by ``new``. ``first`` is what most likely finds it: an
    instrument and what it is asked for."""

    name: str
    place: str
    old: str
    new: str
    first: tuple[str, ...]


INSTRUMENTS: dict[str, tuple[str, ...]] = {
    "commands": ("tests.behaviour", *recorded_worlds()),
    "screens": ("tests.behaviour.screens", "-x"),
    "syncs": ("tests.behaviour.syncs",),
    "matrix": ("pytest", "-q", "-x", "-n", "0", "--all", "tests/matrix"),
}

FAULTS = (
    Fault("wrong verdict", "judge", 'Verdict.ALIVE, f"{who} holds its', 'Verdict.UNKNOWN, f"{who} holds its',
          ("commands", "claims-alive")),
    Fault("wrong evidence", "judge", 'through another mount"\n        return Verdict.DEAD, f"{who} has exited',
          'through another mount"\n        return Verdict.DEAD, f"{who} has stopped',
          ("commands", "claims-dead")),
    Fault("wrong owner", "Presence.owner", "self.host, self.pid,", "self.host, self.start,", ("commands", "claims-dead")),
    Fault("mode not kept", "publish", "draft, data, like,", "draft, data, None,", ("commands", "cursors")),
    Fault("attempt not counted", "requeued_name", "(name.attempts or 0) + 1", "(name.attempts or 0)",
          ("commands", "claims-dead")),
    Fault("order reversed", "NameListing.__post_init__", "sort.descending != (", "sort.descending == (", ("commands", "waiting")),
    Fault("undo text wrong", "_Backwards.add", 'f"back to {back[0]}"', '"back to new"', ("screens", "change-80x24")),
    Fault("exit code wrong", "_code", "return SOME\n    return DONE", "return DONE\n    return DONE",
          ("commands", "claims-mixed")),
    Fault("JSON member missing", "status", '        "last_claim_at": observation.last_claim_at,\n', "", ("commands", "waiting")),
    Fault("lost on error", "Mover._move_otherwise", "self._metas.drop(message.to_name, to.fd)\n",
          "self._metas.drop(message.to_name, to.fd)\n                    self._files.unlink(message.name, source.fd)\n",
          ("matrix", "-k", "test_an_error and hold-ENOSPC")),
    Fault("doubled on EEXIST", "Files._link_over", "raise\n        self.sync_dir(to_fd)",
          "raise\n            return\n        self.sync_dir(to_fd)",
          ("matrix", "-k", "test_cut and old and dirq-simple and purge")),
    Fault("sync left out before the result line", "ChangedFolders.sync", "self._dirs.files.sync_dir(folder.fd)", "folder.fd",
          ("syncs",)),
    Fault("undo moves to the wrong box", "_Backwards.add", "else Way(*back,", "else Way(Box.NEW, *back[1:],",
          ("screens", "change-80x24")),
    Fault("hold into the wrong folder", "Mover._runs_of", "else plan.operation if", "else str(plan.action) if",
          ("commands", "set-aside")),
    Fault("plan not pinned by inode", "is_pinned", "found.st_ino == ino and found.st_ctime_ns == ctime_ns and", "",
          ("screens", "change-80x24")),
    Fault("refusal of a live holder dropped", "Decider._blocked_by", "if row.verdict is Verdict.ALIVE:",
          "if row.verdict is Verdict.ALIVE and row.owner is None:", ("commands", "claims-alive")),
    Fault("cursor type changed", "parse_value", "if isinstance(present, str) and re", "if present is not None and re",
          ("screens", "cursor-file-80x24")),
    Fault("lock removed while held", "blocked_by", 'if lock.verdict != "stale":', 'if lock.verdict not in ("stale", "held"):',
          ("commands", "locks")),
    Fault("stream claim handed over twice", "RECOVER", "redis.call('EXISTS', KEYS[at]) == 0",
          "redis.call('EXISTS', KEYS[at]) >= 0", ("commands", "stream-claimed")),
    Fault("result count wrong", "Result.count", "len(self.items) - self.not_done.total", "len(self.items)",
          ("screens", "change-80x24")),
)  # fmt: skip


def patched(fault: Fault, root: Path) -> tuple[Path, str]:
    """The file below ``root`` that has the fault's place, and its text with the fault. Raises ``LookupError`` unless exactly one
    place of that name has the text, once."""
    found = []
    for path in sorted((root / "spooltop").rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if fault.old not in text:
            continue
        lines = text.splitlines(keepends=True)
        for node in _named(ast.parse(text), fault.place):
            begin, end = sum(map(len, lines[: node.lineno - 1])), sum(map(len, lines[: node.end_lineno]))
            part = text[begin:end]
            if part.count(fault.old) == 1:
                found.append((path, text[:begin] + part.replace(fault.old, fault.new) + text[end:]))
    if len(found) != 1:
        raise LookupError(f"{fault.name}: {fault.old!r} is in {len(found)} places called {fault.place}, not in one")
    return found[0]


def _named(node: ast.AST, place: str) -> Iterator[ast.stmt]:
    """The definitions and assignments below ``node`` with this name, a class before its method: ``Mover.run``."""
    head, _, rest = place.partition(".")
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names = [child.name]
        elif isinstance(child, (ast.Assign, ast.AnnAssign)):
            targets = child.targets if isinstance(child, ast.Assign) else [child.target]
            names = [target.id for target in targets if isinstance(target, ast.Name)]
        else:
            continue
        if head in names:
            if rest:
                yield from _named(child, rest)
            else:
                yield child


@contextmanager
def copy_with(fault: Fault | None) -> Iterator[Path]:
    """A copy of the whole tree, with the fault in it, that every user may read."""
    with tempfile.TemporaryDirectory(prefix="spooltop-fault-", dir=scratch()) as folder:
        os.chmod(folder, 0o755)
        root = Path(folder) / "tree"
        shutil.copytree(_ROOT, root, ignore=_LEFT_OUT)
        if fault is not None:
            path, text = patched(fault, root)
            path.write_text(text, encoding="utf-8")
            compile(text, path, "exec")
        yield root


def words_of(first: Sequence[str]) -> tuple[str, ...]:
    """The words that run the part of an instrument that ``Fault.first`` names; all of it where that is only its name."""
    name, *part = first
    whole = INSTRUMENTS[name]
    return (*(whole[:1] if part and name == "commands" else whole), *part)


def difference(root: Path, words: Sequence[str]) -> str:
    """Runs ``python -m words`` in the copy and returns the first line that tells of a difference, "" where there is none. Raises
    ``RuntimeError`` where it cannot run."""
    env = {**os.environ, "PYTHONPATH": str(root)}
    run = subprocess.run([sys.executable, "-m", *words], cwd=root, env=env, capture_output=True, text=True)
    if run.returncode not in (0, 1):
        raise RuntimeError(f"{' '.join(words)} ended with {run.returncode}: {run.stderr[-2000:] or run.stdout[-2000:]}")
    lines = run.stdout.splitlines()
    told = [line[1:] for line in lines if line[:1] in ("+", "E") and not line.startswith("+++")] or [*lines[-1:], "exit code 1"]
    return "" if run.returncode == 0 else " ".join(told[0].split())


def found_by(fault: Fault, *, each: bool, baseline: Callable[[Sequence[str]], str]) -> Iterator[tuple[str, str]]:
    """Yields the instruments that notice the fault, only the first one unless ``each``, and what they say. ``baseline`` returns
    what the words of an instrument find without a fault."""
    finders = set[str]()
    with copy_with(fault) as root:
        for first in (fault.first, *((name,) for name in INSTRUMENTS)):
            if first[0] not in finders:
                words = words_of(first)
                if noise := baseline(words):
                    print(f"{' '.join(words)} finds something without a fault: {noise}", flush=True)
                elif line := difference(root, words):
                    finders.add(first[0])
                    yield first[0], line
                    if not each:
                        return


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.behaviour.faults")
    parser.add_argument("names", nargs="*", metavar="NAME", help="faults to try; without any all")
    parser.add_argument("--all", action="store_true", help="run every instrument on each fault")
    args = parser.parse_args()
    chosen = [fault for fault in FAULTS if not args.names or fault.name in args.names]
    for fault in FAULTS:
        patched(fault, _ROOT)
    with copy_with(None) as untouched:

        @cache
        def baseline(words: Sequence[str]) -> str:
            return difference(untouched, words)

        missed = [fault.name for fault in chosen if not _try(fault, each=args.all, baseline=baseline)]
    print(f"{len(chosen) - len(missed)} of {len(chosen)} faults were found")
    return int(bool(missed))


def _try(fault: Fault, *, each: bool, baseline: Callable[[Sequence[str]], str]) -> bool:
    """Prints what finds the fault; False where nothing does."""
    found = dict(found_by(fault, each=each, baseline=baseline))
    for name, line in found.items():
        print(f"{fault.name:<36} {name:<9} {line[:110]}", flush=True)
    if not found:
        print(f"{fault.name:<36} NOT FOUND", flush=True)
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
