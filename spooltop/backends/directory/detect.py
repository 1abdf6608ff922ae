"""Identifies a path: a spool, a mail folder, cursors, tickets. Any other path gets an error with the hint that fits.

Nothing is created or changed here, and only the first names of each directory are read.
"""

from __future__ import annotations

import errno
import json
import os
import re
import stat
from collections.abc import Sequence
from itertools import accumulate
from typing import Literal

from spooltop.engine.files import read_small
from spooltop.engine.mail import LOOKED_AT, MailSign, looks_like_mail
from spooltop.engine.tickets import file_tickets
from spooltop.model import LIVE, Box, Frozen, NotASpool, SpooltopError, Unreadable, escape, is_lock_name

from ..access import quoted, sudo_name, user_name
from .scan import boxes_in, first_names, is_spool_at, is_spool_like, open_path

# Names queues of other programs that are not opened, by what lies in them, with the command of that program that lists them.
# Those that a layout describes are opened (``backends/layouts``). They are named here only where their layout does not fit: in
# another form, or empty.


class _Sign(Frozen):
    """A kind of queue: its name, the advice (``{here}`` is the path), the names that it must have, and a pattern that one of its
    names, or a name in its folder ``within``, must match."""

    what: str
    advice: str
    have: Sequence[str] = ()
    pattern: str = ""
    within: str = ""


_EXIM = r"[0-9A-Za-z]{6}-[0-9A-Za-z]{6,11}-[0-9A-Za-z]{2,4}-[DHJ]\Z"
_EXIM_SAYS = "list it: exim -bp; a message is two files there, its headers (-H) and its body (-D)"
_KOMBU = r"[0-9]+_[0-9a-f-]{36}\..+\.msg\Z"
_KOMBU_SAYS = "each .msg is a message: ls -tr {here}; a layout of your own opens folders of other names: spooltop layouts"
_SIGNS = (
    _Sign("a spool of exim", _EXIM_SAYS, ("input", "msglog")),
    _Sign("a spool of exim", _EXIM_SAYS, ("input",), _EXIM, "input"),
    _Sign("the input directory of an exim spool", _EXIM_SAYS, pattern=_EXIM),
    _Sign(
        "a queue of sendmail", "list it: mailq; a message is two files there, qf and df",
        pattern=r"[dqxt]f[0-9A-Za-z]{8,9}[0-9]{5,8}\Z",
    ),
    _Sign("a queue of sendmail", "list it: mailq; a message is two files there, qf and df", ("qf", "df")),
    _Sign("a mailing list of mlmmj", "what it sends lies in its queue: ls {here}/queue", ("subscribers.d", "control", "queue")),
    _Sign("a journal of systemd", "read it: journalctl --directory={here}", pattern=r".+\.journal~?\Z"),
    _Sign("a queue of qmail", "count it: qmail-qstat; list it: qmail-qread", ("mess", "info", "todo")),
    _Sign("a queue of Courier", "list it: mailq", ("msgs", "msgq")),
    _Sign("a queue of OpenSMTPD", "list it: smtpctl show queue", ("queue", "offline", "purge")),
    _Sign("a queue of dma, the DragonFly Mail Agent", "list it: dma -bp", pattern=r"[MQ][0-9a-f]+\.[0-9a-f]+\Z"),
    _Sign("the jobs of at", "list them: atq; show one: at -c NUMBER", pattern=r"[A-Za-z=][0-9a-f]{13}\Z"),
    _Sign("the jobs of at, of which there are none", "list them: atq", (".SEQ",)),
    _Sign("the jobs of CUPS", "list them: lpstat -o", pattern=r"[cd][0-9]{5,}(-[0-9]{3})?\Z"),
    _Sign("a mail folder of MH, not a queue", "list it: scan +FOLDER", (".mh_sequences",)),
    _Sign(
        "the data of RabbitMQ", "ask the server: rabbitmqctl list_queues name messages consumers",
        pattern=r"(msg_stores|schema\.DAT|rabbit@[^/]+)\Z",
    ),
    _Sign(
        "the data of a Redis server, where Bull, Sidekiq, RQ and Celery keep their queues",
        "ask the server: redis-cli --scan --type list", pattern=r"(dump\.rdb|appendonly\.aof|appendonlydir)\Z",
    ),
    _Sign("the data of Kafka", "ask the server: kafka-consumer-groups.sh --describe --all-groups", ("meta.properties",)),
    _Sign("the store of ActiveMQ", "ask the server: activemq dstat queues", ("db.data", "db.redo")),
    _Sign("the queues of nsqd", "ask the server: curl http://127.0.0.1:4151/stats", pattern=r".+\.diskqueue\.meta\.dat\Z"),
    _Sign("the log of beanstalkd", "ask the server: its command stats", pattern=r"binlog\.[0-9]+\Z"),
    _Sign("a disk queue of rsyslog", "its counters are in the statistics of impstats", pattern=r".+\.qi\Z"),
    _Sign(
        "a huey FileStorage without its .lock, as it is with use_thread_lock", "what waits: ls {here}/queue",
        ("queue",), r"[0-9a-f]{4}-[0-9a-f]{12}", "queue",
    ),
    _Sign("a folder of kombu's filesystem transport (Celery)", _KOMBU_SAYS, pattern=_KOMBU),
    _Sign("a FIFO queue of queuelib", "its size is in it: cat {here}/info.json", ("info.json",), r"q[0-9]{5}\Z"),
    _Sign("an SQLite queue, as persist-queue keeps it", "sqlite3 -readonly {here}/data.db .schema", ("data.db",)),
    _Sign(
        "a file queue of persist-queue", "{python from persistqueue import Queue; print(Queue(%s).qsize())} counts it",
        ("info",), r"q[0-9]{5}\Z",
    ),
    _Sign("a diskcache", "{python from diskcache import Cache; print(len(Cache(%s)))} counts it", ("cache.db",)),
)  # fmt: skip


def foreign_queue(path: str, fd: int, names: Sequence[str]) -> tuple[str, str] | None:
    """Returns the kind of queue of another program, and what to do about it. ``names`` are the first ones of the directory
    ``fd``, which is ``path``."""
    have = set(names)

    def inside(folder: str) -> Sequence[str]:
        try:
            return first_names(folder, fd)
        except OSError:
            return ()  # no directory, or not ours to look into

    def matches(pattern: str, folder: str) -> bool:
        """True if a name in the folder ("": the directory itself) matches."""
        return any(re.match(pattern, name) for name in (inside(folder) if folder else names))

    for sign in _SIGNS:
        if have.issuperset(sign.have) and (not sign.pattern or matches(sign.pattern, sign.within)):
            return sign.what, _filled(sign.advice, path)
    if have.issuperset(("queue", ".lock")) and not inside("queue"):
        return "perhaps a huey FileStorage, but nothing is in it", f"if it is: spooltop --as 'huey FileStorage' {quoted(path)}"
    # The folders of kombu may have other names than those that the layout knows.
    if (folder := next((one for one in names if matches(_KOMBU, one)), None)) is not None:
        return "a directory of kombu's filesystem transport (Celery)", _filled(_KOMBU_SAYS, os.path.join(path, folder))
    if names and all(re.match(r"[0-9a-f]{8}\Z", name) for name in names):  # the folders alone do not tell what it is
        program = "from dirq.QueueSimple import QueueSimple as Q; print(Q(%s).count())"
        advice = f"open it when an element is; {{python {program}}} counts them"
        return "perhaps a dirq directory queue, but nothing is in it", _filled(advice, path)
    return None


def _filled(advice: str, path: str) -> str:
    """The advice with the path in it, quoted together with what follows it, or in the words of a program."""
    def filled(found: re.Match[str]) -> str:
        if found[2] is None:
            return quoted(path + found[1])
        return f"python3 -c {quoted(found[2] % json.dumps(os.path.abspath(path)))}"

    return re.sub(r"\{here\}(\S*?)(?=[;\s]|\Z)|\{python (.*?)\}", filled, advice)


_SIBLINGS = 2000
"""Maximum number of names beside a missing one that are compared with it to find a typo."""

_JOURNALS = ("journal.jsonl", "messages.jsonl")
"""Journals of operations on messages, in a spool and in another program's queue."""

_NAME_ONE = "name the directory that holds tmp, new and cur"


def for_file(path: str) -> SpooltopError:
    """Returns the error for a ``path`` that is not a directory, or has a component that is not one."""
    culprit = path
    for prefix in _prefixes(path):
        if os.path.lexists(prefix) and not os.path.isdir(prefix):
            culprit = prefix
            break
    if culprit == path and (known := _link(path) or _known_file(path)):
        return known
    what, advice = "a file, not a spool" if os.path.isfile(culprit) else "not a directory", _NAME_ONE
    folder = os.path.dirname(os.path.abspath(culprit))
    if spool := spool_of_box(folder):
        what += f"; it lies in the box {os.path.basename(folder)}"
        advice = f"open its spool: spooltop {quoted(spool)} (it is {escape(os.path.basename(culprit))} there)"
    elif is_spool_at(folder):
        advice = f"it lies in a spool: spooltop {quoted(folder)}"
    return NotASpool(what, advice, path=culprit)


def _link(path: str) -> SpooltopError | None:
    """Returns the error for a symbolic link to a cursor file; None for anything else. A writer would replace the link instead
    of the file, so none is followed."""
    if not os.path.islink(path) or not os.path.isfile(path):
        return None
    real = os.path.realpath(path)
    advice = f"name the file itself: spooltop cursors --cursor-file {quoted(real)}"
    return NotASpool(f"a symbolic link to {escape(real)}", advice, path=path) if real.endswith(".json") else None


def _known_file(path: str) -> SpooltopError | None:
    """Returns the error for a file whose name or first bytes show what it is; None for any other."""
    name = os.path.basename(path)
    if is_lock_name(name):
        what, advice = "a lock file, not a spool", f"see who holds it: spooltop locks {quoted(os.path.dirname(path) or '.')}"
    elif (head := _head(path)).startswith(b"SQLite format 3\0"):
        if b"message_id" in head and b"lock_time" in head and b"done_time" in head:
            query = "select status, count(*) from Queue group by status"
            what, advice = "a queue of litequeue, which spooltop does not read", f'sqlite3 -readonly {quoted(path)} "{query}"'
        else:
            what, advice = "an SQLite file, not a spool", f"look into it: sqlite3 -readonly {quoted(path)} .schema"
    elif name.endswith(".json"):
        what, advice = "a file, not a spool", f"if it is a cursor file: spooltop cursors --cursor-file {quoted(path)}"
    else:
        return None
    return NotASpool(what, advice, path=path)


def _head(path: str) -> bytes:
    """Returns the beginning of a regular file; empty if it is not one or may not be read."""
    try:
        return read_small(path, limit=65_536).data
    except OSError:
        return b""


def for_error(path: str, error: OSError | ValueError) -> SpooltopError:
    """Returns the error for a ``path`` that could not be opened as a directory."""
    if isinstance(error, ValueError):
        return NotASpool("a path cannot hold a NUL byte", _NAME_ONE, path=path)
    if error.errno == errno.ENOENT:
        return _for_missing(path)
    if error.errno == errno.EACCES:
        for prefix in _prefixes(path)[:-1]:
            if not os.access(prefix, os.X_OK, effective_ids=True):
                try:
                    return for_denied(prefix, os.stat(prefix), path)
                except OSError:
                    break  # it changed meanwhile; the plain error says enough
    if error.errno == errno.ELOOP:
        return NotASpool("symbolic links lead in a circle", "fix the link, or name the directory itself", path=path)
    return Unreadable(f"cannot be opened: {os.strerror(error.errno or 0)}", _NAME_ONE, path=path)


def for_denied(culprit: str, found: os.stat_result, path: str | None = None) -> SpooltopError:
    """Returns the error for ``culprit``, a directory with this ``stat`` that this user may not enter or list."""
    mode = stat.S_IMODE(found.st_mode)
    shown = quoted(path or (os.path.dirname(culprit) if os.path.basename(culprit) in LIVE else culprit))
    if found.st_uid == os.geteuid():
        advice = f"it is your own: chmod u+rwx {quoted(culprit)}"
    else:
        advice = f"try: sudo -u {sudo_name(found.st_uid)} spooltop {shown}"
    owner = escape(user_name(found.st_uid))
    return Unreadable(f"permission denied (owner {owner}, mode {mode:04o})", advice, path=culprit)


def has_journal(path: str) -> bool:
    """True for a directory in or beside which an operator left the journal of operations on messages."""
    beside = f"../.{os.path.basename(os.path.realpath(path))}.spooltop"
    return any(os.path.lexists(os.path.join(path, own, log)) for own in (".spooltop", beside) for log in _JOURNALS)


def for_directory(path: str, fd: int, modes: dict[Box, int], names: list[str]) -> SpooltopError:
    """Returns the error for a directory (``fd``) with these first ``names`` that is not a spool."""
    there = [box for box in LIVE if stat.S_ISDIR(modes.get(box, 0))]
    if spool := spool_of_box(os.path.abspath(path)):
        what = f"only the box {os.path.basename(os.path.abspath(path))} of a spool"
        advice = f"open the spool: spooltop {quoted(spool)}"
    elif has_journal(path):
        what = "operations of spooltop are recorded here, and neither boxes nor a known layout are there"
        advice = f"name what it is: spooltop ops {quoted(path)} --as NAME, as in spooltop layouts"
    elif not names:
        what, advice = "an empty directory", f"make a spool of it: spooltop init {quoted(path)}"
    elif foreign := foreign_queue(path, fd, names):
        what, advice = f"{foreign[0]}, not a spool", foreign[1]
    elif "cursors.json" in names and (link := _link(os.path.join(path, "cursors.json"))):
        return link
    elif inside := [name for name in sorted(names) if is_spool_at(name, fd, follow=False)]:
        shown = " or ".join(quoted(os.path.join(path, name)) for name in inside[:4]) + (" …" if len(inside) > 4 else "")
        number, which = ("one", "it") if len(inside) == 1 else (len(inside), "one")
        what, advice = f"not a spool, but contains {number}", f"open {which}: spooltop {shown}"
    elif locks := [name for name in names if is_lock_name(name)]:
        what = f"not a spool; {'a lock file' if len(locks) == 1 else f'{len(locks)} lock files'} inside"
        advice = f"look at them: spooltop locks {quoted(path)}"
    else:
        what, advice = "not a spool: no tmp/, new/ or cur/ here", _near_or_layouts(path)
        if there:
            missing = " and ".join(box for box in LIVE if box not in there)
            what = f"{missing} missing, only {' and '.join(there)} there"
    return NotASpool(what, advice, path=path)


def _for_missing(path: str) -> SpooltopError:
    """Returns the error for a ``path`` that does not exist, with similar names near where it ends."""
    if set(path) & set("*?["):
        return NotASpool("nothing matches this pattern", "see what is there: ls, and mind the quotes", path=path)
    near: list[str] = []
    for prefix in _prefixes(path):
        if os.path.lexists(prefix):
            if os.path.islink(prefix) and not os.path.exists(prefix):
                return NotASpool("a symbolic link to nothing", "fix the link, or name the directory itself", path=prefix)
            continue
        rest = os.path.relpath(path, prefix) if path != prefix else "."
        near = [os.path.normpath(os.path.join(found, rest)) for found in _near(prefix)]
        near.sort(key=lambda found: not os.path.isdir(found))  # stable: the nearest name first among those that exist
        break
    advice = _did_you_mean(near) or f"check the path, or make a spool: spooltop init {quoted(path)}"
    return NotASpool("no such directory", advice, path=path)


def _did_you_mean(near: Sequence[str]) -> str:
    return f"did you mean {' or '.join(map(quoted, near))}?" if near else ""


def _near_or_layouts(path: str) -> str:
    """Returns the advice for a directory with other content: a spool with a similar name, or what else it may be. Never to make
    a spool in it: it may be anything."""
    return _did_you_mean(list(filter(is_spool_at, _near(os.path.abspath(path))))) or (
        "if it is another program's queue, a layout opens it: spooltop layouts lists them, spooltop layouts form begins one"
    )


def _near(path: str) -> list[str]:
    """Returns up to three directories beside ``path`` with similar names, the most similar first."""
    parent, name = os.path.split(path)
    try:
        names = first_names(os.path.join(parent, "."), None, _SIBLINGS)
    except OSError:
        return []  # no hint from a parent that cannot be seen
    import difflib  # only for what may be misspelt

    close = difflib.get_close_matches(name, [other for other in names if other != name], n=3, cutoff=0.6)
    return [found for other in close if os.path.isdir(found := os.path.join(parent, other))]


def _prefixes(path: str) -> list[str]:
    """Returns ``a``, ``a/b``, ``a/b/c`` for ``a/b/c``; first ``/`` for an absolute path."""
    parts = [part or "/" for at, part in enumerate(path.split("/")) if part or not at]
    return list(accumulate(parts, os.path.join))


def spool_of_box(path: str) -> str | None:
    """Returns the spool that has the absolute ``path`` as a box, or below its ``.spooltop``."""
    parent, name = os.path.split(path)
    if name in (*LIVE, ".spooltop") and is_spool_at(parent):
        return parent
    above, sep, _ = path.partition("/.spooltop/")
    return above if sep and is_spool_at(above) else None


Kind = Literal["spool", "mail", "cursors", "tickets", "locks"]


class IdentifiedPath(Frozen):
    """Identified path. ``path`` is as given, except that for a ``cursors.json`` it is the directory. ``read_only`` says in words
    why nothing may be changed."""

    kind: Kind
    path: str
    read_only: str | None = None
    cursor_files: tuple[str, ...] = ()
    """The cursor file that the path names, if it is one of several in its directory."""


def identify(path: str, as_spool: bool = False, *, otherwise: Kind | None = None) -> IdentifiedPath:
    """Identifies ``path``. ``as_spool`` treats a mail folder as a job spool. A directory that is nothing else becomes a target of
    the kind ``otherwise``.

    Raises ``NotASpool`` with the hint that fits, ``Unreadable`` where a component or a box gives no permission.
    """
    if not path:
        raise NotASpool("an empty path", "name the directory that holds tmp, new and cur")
    try:
        fd = open_path(path)
    except NotADirectoryError:
        if (target := _cursor_file(path)) is not None:
            return target
        raise for_file(path) from None
    except (OSError, ValueError) as error:
        raise for_error(path, error) from None
    try:
        return _identify(path, fd, as_spool, otherwise)
    except PermissionError:
        raise for_denied(path, os.fstat(fd)) from None
    finally:
        os.close(fd)


def _identify(path: str, fd: int, as_spool: bool, otherwise: Kind | None) -> IdentifiedPath:
    modes = boxes_in(fd)
    for box, mode in modes.items():
        if stat.S_ISLNK(mode):
            advice = f"a box must be a directory itself: name the spool that {box} points into"
            raise NotASpool(f"its {box} is a symbolic link", advice, path=path)
    if is_spool_like(modes):
        if (sign := _looks_like_mail(path, fd)) is None or as_spool:
            return IdentifiedPath("spool", path)
        why = f"this is {sign.sentence}, so nothing here is judged stale and nothing changes it; "
        return IdentifiedPath("mail", path, f"{why}if it is a job spool all the same: spooltop --as spool {quoted(path)}")
    names = first_names(".", fd)
    if _kind(fd, "cursors.json") == stat.S_IFREG or (_kind(fd, "cursors") == stat.S_IFDIR and _has_json(fd, "cursors")):
        return IdentifiedPath("cursors", path)
    nobody_waits = "seq" in names and all(name == "seq" or name.startswith(".") for name in names)
    if nobody_waits or (file_tickets(names) and _kind(fd, "seq") == stat.S_IFREG):
        return IdentifiedPath("tickets", path)
    if spool_of_box(whole := os.path.abspath(path)) is None:
        if os.path.basename(whole) == "cursors" and any(name.endswith(".json") for name in names):
            return IdentifiedPath("cursors", os.path.dirname(whole))
        if otherwise is not None and not (otherwise == "locks" and has_journal(path)):
            return IdentifiedPath(otherwise, path)
        if _only_locks(names):
            return IdentifiedPath("locks", path)
    raise for_directory(path, fd, modes, names)


def _cursor_file(path: str) -> IdentifiedPath | None:
    """Returns the target for ``cursors.json`` or ``cursors/SOURCE.json``. It must be a regular file, because a cursor file is
    never read through a link."""
    above, name = os.path.split(os.path.abspath(path))
    try:
        if not stat.S_ISREG(os.lstat(path).st_mode):
            return None
    except OSError:
        return None
    if name == "cursors.json":
        return IdentifiedPath("cursors", os.path.dirname(path) or ".")
    if name.endswith(".json") and os.path.basename(above) == "cursors":
        return IdentifiedPath("cursors", os.path.dirname(above), cursor_files=(path,))
    return None


def _only_locks(names: list[str]) -> bool:
    """True if there are only lock files and the files that belong to them."""
    locks = {name for name in names if is_lock_name(name)}
    belongs = {name.removesuffix(".lck") for name in locks} | {f"{name}{end}" for name in locks for end in (".filelock", ".rw")}
    return bool(locks) and all(name in locks or name in belongs or name.startswith(".") for name in names)


def _looks_like_mail(path: str, fd: int) -> MailSign | None:
    """Returns the evidence that it is a mail folder; None without any. Raises ``Unreadable`` if none of the boxes can be
    listed."""
    seen = 0
    denied: list[str] = []

    def list_names(folder: str) -> list[str] | None:
        nonlocal seen
        try:
            found = first_names(folder, fd, LOOKED_AT)
        except PermissionError:
            denied.extend([folder] if folder in LIVE else [])
            return None
        except OSError:
            return None  # missing, a file, or the disk fails: the scan that follows says so, with the error
        seen += folder in LIVE
        return found

    sign = looks_like_mail(list_names, lambda name: bool(_kind(fd, name)))
    if denied and not seen:
        raise for_denied(os.path.join(path, denied[0]), os.lstat(denied[0], dir_fd=fd))
    return sign


def _kind(fd: int, name: str) -> int:
    try:
        return stat.S_IFMT(os.lstat(name, dir_fd=fd).st_mode)
    except FileNotFoundError:
        return 0


def _has_json(fd: int, name: str) -> bool:
    try:
        return any(entry.endswith(".json") for entry in first_names(name, fd))
    except PermissionError:
        raise Unreadable(f"{name}/ gives no permission to list it") from None
