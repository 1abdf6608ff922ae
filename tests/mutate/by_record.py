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

from .mutations import Mutation
from .reach import REPOSITORY, Reach, Recorder

__all__ = ["PREFIX", "Record", "measured_worlds"]

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


class Record:
    """The worlds, played with the package in ``tree``."""

    def __init__(self, tree: Path, environment: dict[str, str]) -> None:
        self._tree, self._environment = tree, environment
        self._sound: dict[str, bool] = {}
        """Maps a world to True if it shows nothing without any mutation: one that differs anyhow notices nothing."""

    def shown_by(self, worlds: Iterable[str], mutation: Mutation) -> str:
        """Returns the first world whose record differs from what the package does with the mutation; "" if none does."""
        at = self._tree / mutation.path
        source = at.read_bytes()
        for world in worlds:
            at.write_bytes(mutation.applied(source))
            try:
                is_shown = self._differs(world)
            finally:
                at.write_bytes(source)
            if is_shown and self._is_sound(world):
                return world
        return ""

    def _is_sound(self, world: str) -> bool:
        if world not in self._sound:
            self._sound[world] = not self._differs(world)
            if not self._sound[world]:
                print(f"{world} differs without any mutation", file=sys.stderr)
        return self._sound[world]

    def _differs(self, world: str) -> bool:
        command = [sys.executable, "-m", "tests.behaviour", world.removeprefix(PREFIX)]
        ran = subprocess.run(command, cwd=self._tree, env=self._environment, check=False, capture_output=True)
        return ran.returncode != 0


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
