"""Runs the commands of a recorded file and writes down what they do: output, exit code, and what they changed in the tree.

A file ``recorded/WORLD.txt`` has a heading for each case, which is both the table of cases and a part of the record::

    $ [root] NAME=VALUE 'text on stdin' | requeue spool ID1 --yes && undo spool OP1 --yes

- Words are those behind ``spooltop``, quoted as in a shell. ID1, OP1, PID1, TOKEN1 and ENTRY1 stand for what has that name in
  the record, SOCKET for that of the server.
- ``&&`` separates commands of one case; each case has a world of its own. ``@ |`` pipes the output of the one before.
- ``[root]`` makes the world and runs the commands as root; ``[guest]`` makes it as root and runs them as an ordinary user; all
  other cases are of an ordinary user who owns the world.
- ``[N lines]`` stops a command that runs on, by SIGINT, after N lines.
"""

from __future__ import annotations

import codecs
import ctypes
import difflib
import grp
import importlib.util
import inspect
import io
import itertools
import os
import pkgutil
import pwd
import re
import shlex
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import spooltop
from spooltop.__main__ import main
from tests.needs import path_of
from tests.scratch import scratch
from tests.stream_servers import running

from .normal import Normaliser
from .stopped_clock import stop_clock
from .tree import tree
from .worlds import SOCKET, WORLDS, World

__all__ = ["RECORDED", "Case", "cases_in", "difference", "missing", "preload", "record", "recorded_worlds", "stream_server"]

RECORDED = Path(__file__).parent / "recorded"
_HEADING = re.compile(r"(?:\$ )?((?:\[[^]]*\] )*)(.*)")
_USER = "games"
"""An ordinary user of every system, as whom nothing else runs."""
_DUMPABLE = 4
"""PR_SET_DUMPABLE, prctl(2)."""
_FIRST_NAMESPACE = "pid:[4026531836]"
_BY_PID = re.compile("claims-|tmp-|move-|poison|odd|operations|locks|several|seed_|hostile|layout-job|mail|read-only")
"""Worlds in which pids are judged, which only the first pid namespace allows."""
_PROGRAMS = {"locks": "flock", **dict.fromkeys(("stream", "stream-claimed", "stream-several", "stream-states"), "redis-server")}
"""The program that a world needs."""
_GROWING = ("seed", "layout", "mail", "cursors", "set-aside", "several", "locks")
"""Worlds with stored files, whose ages grow by days."""
_RUN = re.compile(r"(.)\1{200,}")
_SETTING = re.compile(r"[A-Z_]+=")
_LIMIT = 120
"""Seconds after which a case that hangs is killed."""
_LATER = 90.0
"""Seconds from the world to the commands, so that what is young is a minute old, however long it takes to make it."""
_STEP = 1.3
"""Seconds from one command of a case to the next."""


@dataclass(frozen=True)
class Case:
    """One heading of a recorded file, and what stands below it."""

    heading: str
    text: str = ""

    @property
    def marks(self) -> list[str]:
        return re.findall(r"\[([^]]*)\]", self._parts[1])

    @property
    def needs_root(self) -> bool:
        return not {"root", "guest"}.isdisjoint(self.marks)

    @property
    def commands(self) -> list[str]:
        return self._parts[2].split(" && ")

    @property
    def lines(self) -> int | None:
        """The number of lines after which the command is stopped; None for one that ends by itself."""
        return next((int(mark.split()[0]) for mark in self.marks if mark.endswith(" lines")), None)

    @property
    def _parts(self) -> re.Match[str]:
        match = _HEADING.fullmatch(self.heading)
        assert match is not None, self.heading
        return match


def recorded_worlds(*, with_root: bool = False) -> list[str]:
    """Lists the worlds of which there is a record, or those of them with cases that need root."""
    names = sorted(path.stem for path in RECORDED.glob("*.txt") if path.stem in WORLDS)
    return [name for name in names if not with_root or any(case.needs_root for case in cases_in(name))]


def cases_in(world: str) -> list[Case]:
    """Reads the cases of a world from its recorded file."""
    return cases_of((RECORDED / f"{world}.txt").read_text(encoding="utf-8"))


def cases_of(text: str) -> list[Case]:
    """Splits a recorded file at its headings; what stands before the first one is a case without a heading.

    >>> [case.commands for case in cases_of("the world\\n$ ls spool\\n  a\\n$ [root] init s && ls s\\n")[1:]]
    [['ls spool'], ['init s', 'ls s']]
    """
    cases = [Case("")]
    for line in text.splitlines():
        if line.startswith("$ "):
            cases.append(Case(line))
        else:
            cases[-1] = Case(cases[-1].heading, f"{cases[-1].text}{line}\n")
    return cases


def missing(world: str) -> str | None:
    """Returns what this machine lacks to make a world; None where nothing is missing."""
    program = _PROGRAMS.get(world)
    if program is not None and path_of(program) is None:
        return program
    if _BY_PID.match(world) and os.readlink("/proc/self/ns/pid") != _FIRST_NAMESPACE:
        return "the first pid namespace"
    return None


def preload() -> None:
    """Imports what commands import, so that a forked child need not: its user may not be allowed to read the interpreter."""
    for module in pkgutil.walk_packages(spooltop.__path__, "spooltop."):
        if not module.name.startswith(("spooltop.tui", "spooltop.cli.demo", "spooltop.__main__")):
            source = inspect.getsource(importlib.import_module(module.name))
            for name in re.findall(r"^ *(?:from|import) ([a-z][\w.]*)", source, re.MULTILINE):
                if importlib.util.find_spec(name.partition(".")[0]) is not None:
                    importlib.import_module(name)
    for encoding in ("ascii", "idna", "latin-1", "unicode_escape"):
        codecs.lookup(encoding)


def description(world: str) -> str:
    build = WORLDS[world]
    return getattr(build, "func", build).__doc__ or ""


@contextmanager
def stream_server() -> Iterator[None]:
    """Runs a server of streams meanwhile, for whoever asks it."""
    with tempfile.TemporaryDirectory(prefix="sp") as folder:
        os.chmod(folder, 0o755)
        with running("redis", Path(folder), "--unixsocketperm", "777") as socket:
            os.environ[SOCKET] = socket
            yield


def record(world: str, case: Case) -> str:
    """Runs a case and returns what stands below its heading. The first case of a file has no command: its world alone."""
    folder = Path(tempfile.mkdtemp(prefix="spooltop.", dir=scratch()))
    try:
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                signal.alarm(_LIMIT)
                text = _case(folder, world, case)
            except Exception:  # noqa: BLE001  it is shown as the difference
                text = traceback.format_exc()
            with open(write, "w", encoding="utf-8") as pipe:
                pipe.write(text)
            os._exit(0)
        os.close(write)
        with open(read, encoding="utf-8") as pipe:
            text = pipe.read()
        status = os.waitpid(pid, 0)[1]
        return text if status == 0 else f"{text}the case ended with status {status}\n"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def difference(world: str, case: Case) -> Iterator[str]:
    """Yields the lines of the difference between what is recorded of a case and what it does now."""
    name = f"{world} {case.heading}"
    old, new = case.text.rstrip().splitlines(), record(world, case).rstrip().splitlines()
    return difflib.unified_diff(old, new, f"recorded {name}", f"now {name}", lineterm="", n=2)


def _case(folder: Path, world: str, case: Case) -> str:
    """Makes the world in this process, as the user of the case, and runs the commands of the case in it."""
    as_root, guest = os.geteuid() == 0, "guest" in case.marks
    user = pwd.getpwnam(_USER) if as_root and "root" not in case.marks else pwd.getpwuid(os.geteuid())
    folder.chmod(0o755)
    for name in ("w", "state", "home"):
        (folder / name).mkdir()
    if as_root:
        for path in (folder, *folder.iterdir()):
            if not guest or path.name != "w":
                os.chown(path, user.pw_uid, user.pw_gid)
        if not guest:
            _become(user)
    os.umask(0o022)
    os.chdir(folder / "w")
    server = _only_settings(folder)
    sys.orig_argv = ["consumer"]  # the command of those that claim
    paths = {str(folder / "w"): "/W", str(folder / "state"): "/STATE", str(folder / "home"): "/HOME", sys.executable: "/PYTHON"}
    if server:
        paths[server] = "/SOCKET"
    group = grp.getgrgid(user.pw_gid).gr_name
    is_moving = world.startswith("stream") or "--watch" in case.heading or case.lines is not None
    names = Normaliser(paths, user.pw_name, group, seconds=is_moving, days=world.startswith(_GROWING))
    made = World(names)
    try:
        WORLDS[world](made)
        before = tree(folder, names, (user.pw_uid, user.pw_gid))
        if not case.heading:
            return "\n".join([f"{world}: {description(world)}", "", *before, "", ""])
        if as_root and guest:
            _become(user)
        lines = _play(folder, case, names, server, None if is_moving else time.time() + _LATER)
        after = tree(folder, names, (user.pw_uid, user.pw_gid))
    finally:
        made.close()
    changes = [f"{line[0]} {line[2:]}" for line in difflib.ndiff(before, after) if line[0] in "+-"]
    return "\n".join([*lines, *changes, "", ""])


def _become(user: pwd.struct_passwd) -> None:
    os.setgroups([])
    os.setgid(user.pw_gid)
    os.setuid(user.pw_uid)
    ctypes.CDLL(None).prctl(_DUMPABLE, 1)  # as if it had logged in: its own processes may read what it has open


def _only_settings(folder: Path) -> str:
    """Leaves this process no settings but its own; returns the server's socket, "" where none runs."""
    kept = {name: os.environ[name] for name in ("PATH", SOCKET) if name in os.environ}
    os.environ.clear()
    own = {"HOME": str(folder / "home"), "XDG_STATE_HOME": str(folder / "state"), "TZ": "UTC", "LANG": "C.UTF-8", "TERM": "dumb"}
    os.environ.update({**kept, **own})
    time.tzset()
    return kept.get(SOCKET, "")


def _play(folder: Path, case: Case, names: Normaliser, server: str, clock: float | None) -> list[str]:
    """Runs the commands of a case, one after the other. ``clock`` is the time of the first one, each other a little later;
    None: the clock goes on."""
    lines: list[str] = []
    out = b""
    for number, command in enumerate(case.commands):
        if clock is not None:
            stop_clock(clock + number * _STEP)
        words = shlex.split(names.real(command).replace("SOCKET", server))
        environ = dict(word.split("=", 1) for word in itertools.takewhile(_SETTING.match, words))
        words = words[len(environ) :]
        given = b""
        if words[1:2] == ["|"]:
            given = out if words[0] == "@" else words[0].encode().decode("unicode_escape").encode("latin-1")
            words = words[2:]
        code, out, err = _run(folder, words, given, environ, case.lines)
        if len(case.commands) > 1:
            lines.append(f"$$ {command}")
        for sign, printed in ((" ", out), ("!", err)):
            shown = names.text(os.fsdecode(printed)).removesuffix("\n")
            shown = _RUN.sub(lambda match: f"{match[1]}×{len(match[0])}", shown)
            lines += [f"{sign} {line}".rstrip() for line in shown.split("\n") if printed]
        lines.append("exit 0 or 1" if words[0] == "doctor" and code < 2 else f"exit {code}")  # as the machine is
    return lines


def _run(
    folder: Path, words: Sequence[str], given: bytes, environ: dict[str, str], lines: int | None
) -> tuple[int, bytes, bytes]:
    """Runs a command in a forked child; returns its exit code and what it printed. SIGINT ends it after ``lines`` lines."""
    read, write = os.pipe()
    with tempfile.TemporaryFile(dir=folder) as stdin, tempfile.TemporaryFile(dir=folder) as err:
        stdin.write(given)
        stdin.seek(0)
        pid = os.fork()
        if pid == 0:
            os.environ.update(environ)
            _command(words, stdin.fileno(), write, err.fileno())
        os.close(write)
        out = b""
        with open(read, "rb", buffering=0) as pipe:
            while piece := pipe.read(65_536):
                out += piece
                if lines is not None and out.count(b"\n") >= lines:
                    os.kill(pid, signal.SIGINT)
                    lines = None
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        err.seek(0)
        return code, out, err.read()


def _command(words: Sequence[str], *streams: int) -> NoReturn:
    """Runs a command line as if it were this process's own, and ends the process."""
    code = 70
    try:
        for stream, fd in enumerate(streams):
            os.dup2(fd, stream)
        os.closerange(3, 256)
        sys.orig_argv = ["spooltop", *words]
        files = [open(fd, mode, closefd=False) for fd, mode in ((0, "rb"), (1, "wb"), (2, "wb"))]  # noqa: SIM115
        sys.stdin, sys.stdout, sys.stderr = (io.TextIOWrapper(file, "utf-8", "surrogateescape") for file in files)
        code = main(words)
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:  # noqa: BLE001  it is shown as the difference
        os.write(2, traceback.format_exc().encode())
    finally:
        os._exit(code)
