"""The record of behaviour as tests of a mutation: ``python -m tests.mutate.by_record WORLD`` prints the functions that a world
enters."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from .reach import REPOSITORY, Reach, Recorder

__all__ = ["PREFIX", "measured_worlds", "shown_by"]

PREFIX = "record:"
"""How the name of a world begins among the names of tests."""
LOG = 300
"""Descriptor that no command closes."""


def measured_worlds(environment: dict[str, str]) -> Reach:
    """Plays each world once: which function it enters."""
    from tests.behaviour.record import recorded_worlds

    found = Reach()
    for world in recorded_worlds():
        began = time.monotonic()
        command = [sys.executable, "-m", __name__, world]
        ran = subprocess.run(command, cwd=REPOSITORY, env=environment, check=True, stdout=subprocess.PIPE)
        found.seconds[PREFIX + world] = time.monotonic() - began
        for key in ran.stdout.decode().split():
            found.functions.setdefault(key, []).append(PREFIX + world)
    return found


def shown_by(worlds: Iterable[str], tree: Path, environment: dict[str, str]) -> str | None:
    """Returns the first world whose record differs from what the package in ``tree`` does."""
    for world in worlds:
        command = [sys.executable, "-m", "tests.behaviour", world.removeprefix(PREFIX)]
        if subprocess.run(command, cwd=tree, env=environment, check=False, capture_output=True).returncode != 0:
            return world
    return None


def main(world: str) -> None:
    from tests.behaviour.__main__ import differences
    from tests.behaviour.record import preload

    preload()
    recorder, end = Recorder(), os._exit
    with tempfile.TemporaryFile() as log:
        os.dup2(log.fileno(), LOG)

        def end_child(code: int) -> None:
            os.write(LOG, "".join(f"{key}\n" for key in recorder.stop()).encode())
            end(code)

        os._exit = end_child  # type: ignore[assignment]
        os.register_at_fork(after_in_child=recorder.start)
        print("\n".join(differences(world, None)), file=sys.stderr)
        log.seek(0)
        print("\n".join(sorted(set(log.read().decode().split()))))


if __name__ == "__main__":
    main(sys.argv[1])
