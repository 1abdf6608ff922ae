"""Runs the commands of a recorded file and writes down what they do: output, exit code, and what they changed in the tree.

A file ``recorded/WORLD.txt`` has a heading for each case, which is both the table of cases and a part of the record::

    $ [root] NAME=VALUE 'text on stdin' | requeue spool ID1 --yes && undo spool OP1 --yes

- Words are those behind ``spooltop``, quoted as in a shell. ID1, OP1, PID1, TOKEN1 and ENTRY1 stand for what the record calls so.
- ``&&`` separates commands of one case; each case has a world of its own. ``@ |`` gives a command the output of the one before it.
- ``[root]`` makes the world and runs the commands as root; ``[guest]`` makes it as root and runs them as an ordinary user; all
  other cases are of an ordinary user who owns the world: nobody, where root records.
- ``[N lines]`` stops a command that runs on, by SIGINT, after N lines.
"""

from __future__ import annotations

import codecs
import difflib
import grp
import importlib.util
import inspect
import io
import json
import os
import pkgutil
import pwd
import re
import shlex
import shutil
import signal
import stat
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import spooltop
from spooltop.__main__ import main
from tests.backends.streams.servers import running
from tests.needs import path_of
from tests.scratch import scratch

from .normal import Normaliser
from .worlds import SOCKET, WORLDS, World

__all__ = ["RECORDED", "Case", "cases_in", "difference", "missing", "preload", "record", "recorded_worlds", "stream_server"]

RECORDED = Path(__file__).parent / "recorded"
_HEADING = re.compile(r"(?:\$ )?((?:\[[^]]*\] )*)(.*)")
_NOBODY = "nobody"
_FIRST_NAMESPACE = "pid:[4026531836]"
_BY_PID = re.compile("claims-|tmp-|poison|odd|operations|locks|several|seed_|hostile|layout-job|mail|read-only")
"""Worlds in which pids are judged, which only the first pid namespace allows."""
_LIMIT = 120
"""Seconds after which a case that hangs is killed."""


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
    if world == "stream" and path_of("redis-server") is None:
        return "redis-server"
    if _BY_PID.match(world) and os.readlink("/proc/self/ns/pid") != _FIRST_NAMESPACE:
        return "the first pid namespace"
    return None


def preload() -> None:
    """Imports what commands import, so that a forked child need not, and could not where its user may not read the interpreter."""
    for module in pkgutil.walk_packages(spooltop.__path__, "spooltop."):
        if not module.name.startswith(("spooltop.tui", "spooltop.cli.demo", "spooltop.__main__")):
            source = inspect.getsource(importlib.import_module(module.name))
            for name in re.findall(r"^ *(?:from|import) ([a-z][\w.]*)", source, re.MULTILINE):
                if importlib.util.find_spec(name.partition(".")[0]) is not None:
                    importlib.import_module(name)
    for encoding in ("ascii", "idna", "latin-1", "unicode_escape"):
        codecs.lookup(encoding)


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
    folder = tempfile.mkdtemp(prefix="spooltop.", dir=scratch())
    try:
        os.chmod(folder, 0o755)
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                signal.alarm(_LIMIT)
                text = _case(Path(folder), world, case)
            except BaseException:
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
    old, new = case.text.splitlines(), record(world, case).splitlines()
    return difflib.unified_diff(old, new, f"recorded {name}", f"now {name}", lineterm="", n=2)


def _become(user: pwd.struct_passwd) -> None:
    os.setgroups([])
    os.setgid(user.pw_gid)
    os.setuid(user.pw_uid)


def _case(folder: Path, world: str, case: Case) -> str:
    """Makes the world in a process of its own, as the user of the case, and runs the commands of the case in it."""
    marks = case.marks
    as_root = os.geteuid() == 0
    user = pwd.getpwnam(_NOBODY) if as_root and "root" not in marks else pwd.getpwuid(os.geteuid())
    for name in ("w", "state", "home"):
        (folder / name).mkdir()
        if as_root and (name != "w" or "guest" not in marks):
            os.chown(folder / name, user.pw_uid, user.pw_gid)
    os.chown(folder, user.pw_uid, user.pw_gid) if as_root else None
    if as_root and "guest" not in marks:
        _become(user)
    os.umask(0o022)
    os.chdir(folder / "w")
    path = os.environ.get("PATH", os.defpath)
    socket = os.environ.get(SOCKET, "")
    os.environ.clear()
    os.environ.update(PATH=path, HOME=str(folder / "home"), XDG_STATE_HOME=str(folder / "state"), TZ="UTC", LANG="C.UTF-8", TERM="dumb")
    os.environ[SOCKET] = socket
    time.tzset()
    paths = {str(folder / "w"): "/W", str(folder / "state"): "/STATE", str(folder / "home"): "/HOME"}
    if socket:
        paths[socket] = "/SOCKET"
    paths[sys.executable] = "/PYTHON"
    names = Normaliser(paths, user.pw_name, grp.getgrgid(user.pw_gid).gr_name, days=world.startswith(("seed", "layout", "mail", "cursors", "set-aside")))
    made = World(names)
    lines: list[str] = []
    try:
        WORLDS[world](made)
        before = _tree(folder, names, user)
        if as_root and "guest" in marks:
            _become(user)
        if not case.heading:
            return "\n".join([*_described(world), *before, ""]) + "\n"
        out = b""
        for command in case.commands:
            words = shlex.split(names.real(command).replace("SOCKET", socket))
            environ = dict(word.split("=", 1) for word in words if re.match(r"[A-Z_]+=", word) and "|" not in words[: words.index(word)])
            words = [word for word in words if word.partition("=")[0] not in environ]
            given = b""
            if "|" in words:
                given = out if words[0] == "@" else os.fsencode(words[0].encode("latin-1", "backslashreplace").decode("unicode_escape"))
                words = words[2:]
            code, out, err = _run(folder, words, given, environ, marks)
            if len(case.commands) > 1:
                lines.append(f"$$ {command}")
            lines += [f"  {line}".rstrip() for line in _lines(names.text(os.fsdecode(out)))]
            lines += [f"! {line}".rstrip() for line in _lines(names.text(os.fsdecode(err)))]
            lines.append("exit 0 or 1" if words[0] == "doctor" and code < 2 else f"exit {code}")
        after = _tree(folder, names, user)
    finally:
        made.close()
    changed = [line for line in difflib.ndiff(before, after) if line[0] in "+-"]
    return "\n".join([*lines, *(_marked(line) for line in changed), ""]) + "\n"


def _marked(line: str) -> str:
    return f"{line[0]} {line[2:]}"


def _lines(text: str) -> list[str]:
    return text.removesuffix("\n").split("\n") if text else []


def _described(world: str) -> Iterator[str]:
    build = WORLDS[world]
    yield f"{world}: {(getattr(build, 'func', build).__doc__ or 'Nothing at all.').strip()}"
    yield ""


def _run(folder: Path, words: Sequence[str], given: bytes, environ: dict[str, str], marks: Sequence[str]) -> tuple[int, bytes, bytes]:
    """Runs a command in a forked child; returns its exit code and what it printed."""
    lines = next((int(mark.split()[0]) for mark in marks if mark.endswith(" lines")), None)
    (read, write), err = os.pipe(), tempfile.TemporaryFile(dir=folder)
    stdin = tempfile.TemporaryFile(dir=folder)
    stdin.write(given)
    stdin.seek(0)
    pid = os.fork()
    if pid == 0:
        code = 70
        try:
            os.environ.update(environ)
            for fd, stream in ((stdin.fileno(), 0), (write, 1), (err.fileno(), 2)):
                os.dup2(fd, stream)
            os.closerange(3, 256)
            sys.stdin = io.TextIOWrapper(open(0, "rb", closefd=False), encoding="utf-8", errors="surrogateescape")
            sys.stdout = io.TextIOWrapper(open(1, "wb", closefd=False), encoding="utf-8", errors="surrogateescape")
            sys.stderr = io.TextIOWrapper(open(2, "wb", closefd=False), encoding="utf-8", errors="backslashreplace", write_through=True)
            code = main(words)
            sys.stdout.flush()
        except BaseException:
            os.write(2, traceback.format_exc().encode())
        finally:
            os._exit(code)
    os.close(write)
    printed = b""
    with open(read, "rb", buffering=0) as pipe:
        while piece := pipe.read(65_536):
            printed += piece
            if lines is not None and printed.count(b"\n") >= lines:
                os.kill(pid, signal.SIGINT)
                lines = None
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    with err, stdin:
        err.seek(0)
        return code, printed, err.read()


def _tree(folder: Path, names: Normaliser, user: pwd.struct_passwd) -> list[str]:
    """Lists what a case has below its folder: mode, owner where it is another one, path, number of names, content."""
    lines = []
    for top in ("w", "state"):
        for path in sorted((folder / top).rglob("*"), key=lambda path: [part.lstrip(".") if part != ".spooltop" else "~" for part in path.parts]):
            lines.append(_entry(path, path.relative_to(folder if top == "state" else folder / "w"), names, user))
    return [line for line in lines if line]


def _entry(path: Path, name: Path, names: Normaliser, user: pwd.struct_passwd) -> str:
    found = path.lstat()
    mode = stat.S_IMODE(found.st_mode)
    owner = "" if (found.st_uid, found.st_gid) == (user.pw_uid, user.pw_gid) else f" {found.st_uid}:{found.st_gid}"
    links = f" ={found.st_nlink}" if stat.S_ISREG(found.st_mode) and found.st_nlink > 1 else ""
    shown = names.text(str(name).replace("\n", "\\x0a"))
    if stat.S_ISDIR(found.st_mode):
        return f"{mode:04o}{owner} {shown}/"
    if stat.S_ISLNK(found.st_mode):
        return f"link{owner} {shown} -> {os.readlink(path)}"
    if not stat.S_ISREG(found.st_mode):
        return f"{mode:04o}{owner} {shown} (no file)"
    return f"{mode:04o}{owner} {shown}{links} {_content(path, names)}"


def _content(path: Path, names: Normaliser) -> str:
    """Shows a short content, and the digest of a long one; of journals only the members of their lines."""
    try:
        data = path.read_bytes()
    except PermissionError:
        return "unreadable"
    if path.suffix == ".jsonl":
        members = sorted({name for line in data.split(b"\n") if line.startswith(b"{") for name in json.loads(line)})
        return f"lines of {', '.join(members)}"
    if path.name == ".cursors.journal" or (".spooltop" in path.parts and path.suffix == ".counters"):
        return "present"
    text = names.text(os.fsdecode(data)).replace("\n", "\\n") if len(data) < 2000 else ""
    if 0 < len(text) <= 300 or not data:
        return f'"{text}"'
    return f"{len(data)} bytes {sha256(data).hexdigest()[:12]}"
