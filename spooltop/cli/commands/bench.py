"""``bench``: tables of what this file system does a second."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

from spooltop.backends.directory.storage import mount_of
from spooltop.backends.directory.trials import trial_parent
from spooltop.model import NotASpool, Refused, UsageError, count, escape, fit, has_scheme, size, without_secrets
from spooltop.monitor.bench import BYTES_AT_MOST, FILES_AT_MOST, Figure, check_room, measure, shown

from ..context import Arguments, ProgressLine, Terminal, here_or, interrupted_by_signals
from ..render.as_json import members

_SHORTEST, _LONGEST = 2.0, 3600.0
_RATE, _TIME, _SAMPLES = 10, 8, 10
_HEADS = {
    "files": ("files of 1 kB, 1 process", 32, "", 0),
    "locks": ("take and release", 18, "processes", 11),
    "engine": ("engine, 1 kB", 29, "operation", 13),
}
"""Heads of the first two columns of each section, and their widths: no table is wider than 80 cells."""
_NOTES = {
    "locks": (
        "exclusive: a counter that the 4 processes add to while they hold it came out",
        "right. mkdir and O_EXCL are tried every 1 ms, filelock every 50 ms.",
    ),
    "engine": ("put to claim: how long a message waits. Writers wait while 1,000 messages do.",),
}


def bench(args: Arguments) -> int:
    """Prints a table for each section as soon as it is measured. 1 if something could not be measured or a lock failed."""
    terminal = args.terminal
    seconds: float = args.seconds
    if not _SHORTEST <= seconds <= _LONGEST:
        raise UsageError(f"--seconds {seconds:g} is not between 2 and 3600", "as in --seconds 20")
    path = args.path = here_or(args)
    if has_scheme(path):
        raise Refused("bench: measures a file system", "name a directory", path=without_secrets(path))
    busy = _others(args)
    parent = trial_parent(path)
    if not os.access(parent, os.W_OK | os.X_OK, effective_ids=True):
        raise Refused("bench: it cannot be written by you", f"ls -ld {escape(parent)}", path=parent)
    check_room(parent)
    if busy:
        terminal.err(f"spooltop: {busy}: they make the figures lower, and the bench slows them down")
    _announce(path, parent, seconds, terminal)
    failed = False
    section: list[Figure] = []
    line = ProgressLine(terminal, "bench", hint="Ctrl-C stops and cleans up")

    def show() -> None:
        line.close()
        terminal.show(map(_json, section), _table(section))
        terminal.flush()
        section.clear()

    with interrupted_by_signals():
        try:
            with line, closing(measure(parent, seconds, line.share)) as figures:
                for figure in figures:
                    failed = failed or bool(figure.error) or figure.exclusive is False
                    if section and figure.run.section != section[-1].run.section:
                        show()
                    section.append(figure)
                    if terminal.json:
                        show()
        except KeyboardInterrupt:
            show()
            raise
    show()
    return 1 if failed else 0


def _others(args: Arguments) -> str:
    """Says who works here now; empty if nobody does, and for a directory that is no target. Raises ``Refused`` for one that is
    read-only."""
    try:
        with args.control(owners=False) as control:
            if why := control.why_read_only:
                raise Refused(f"bench: {why}", "name a directory beside it", path=args.path)
            observation = control.look().observation
    except NotASpool:
        if not os.path.isdir(args.path):
            raise
        return ""
    found = []
    if observation.consumers:
        found.append(f"{count(observation.consumers)} consumer{'s' * (observation.consumers > 1)}")
    if observation.counts.alive and not observation.consumers:
        found.append(f"holders of {count(observation.counts.alive)} claims")
    if observation.counts.writing:
        found.append(f"{count(observation.counts.writing)} writers in tmp")
    return f"{' and '.join(found)} at work here now" if found else ""


def _announce(path: str, parent: str, seconds: float, terminal: Terminal) -> None:
    fd = os.open(parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        mount = mount_of(fd)
    finally:
        os.close(fd)
    kind = "?" if mount is None else mount.fs_type
    system = os.uname()
    about = {
        "section": "bench", "target": escape(os.path.abspath(path)), "folder": escape(parent),
        "file_system": kind, "kernel": system.release, "cpus": os.cpu_count(), "seconds": seconds,
        "files_at_most": FILES_AT_MOST, "bytes_at_most": BYTES_AT_MOST,
    }  # fmt: skip
    lines = (
        f"spooltop bench {escape(path)}: {kind}, Linux {system.release}, {os.cpu_count()} CPUs",
        f"about {seconds:g} s; at most {count(FILES_AT_MOST)} files and {size(BYTES_AT_MOST)}, removed at the end,",
        f"in a hidden directory in {escape(parent)}",
    )
    terminal.show([about], lines)
    terminal.flush()


def _table(figures: Sequence[Figure]) -> Iterator[str]:
    """Lines of a section: a head, a row for each figure, a note on how it was measured."""
    if not figures:
        return
    section = figures[0].run.section
    title, width, second, part = _HEADS[section]
    last = "  exclusive" if section == "locks" else ""
    yield ""
    yield (
        f"{title:<{width}}{second:>{part}}{'a second':>{_RATE}}{'p50':>{_TIME}}{'p99':>{_TIME}}{'samples':>{_SAMPLES}}{last}"
    )
    for figure in figures:
        run = figure.run
        name = f"{run.name}, durable" if run.durable else run.name
        beside = figure.part if section == "engine" else str(run.processes)
        head = f"{fit(name, width, cut='right')}{beside if second else '':>{part}}"
        if figure.error:
            yield f"{head}  failed: {escape(figure.error)}"
            continue
        rate = "—" if figure.per_second is None else count(round(figure.per_second))
        numbers = f"{rate:>{_RATE}}{shown(figure.p50):>{_TIME}}{shown(figure.p99):>{_TIME}}{count(figure.operations):>{_SAMPLES}}"
        exclusive = {None: "", True: "  yes", False: "  NO: two held it at a time"}[figure.exclusive]
        yield f"{head}{numbers}{exclusive}"
    yield from _NOTES.get(section, ())


def _json(figure: Figure) -> dict[str, Any]:
    run = figure.run
    return {
        **members(run, "section", "name"), "part": figure.part or None, **members(run, "durable", "processes"),
        **members(figure, "operations", "seconds", "per_second"), "p50_seconds": figure.p50, "p99_seconds": figure.p99,
        "exclusive": figure.exclusive, "error": figure.error or None,
    }  # fmt: skip
