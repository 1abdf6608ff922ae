"""Names queues of other programs that are not opened, by what lies in them, with the command of that program that lists them.

Those that a layout describes are opened (``backends/layouts``). They are named here only where their layout does not fit: in
another form, or empty.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ..access import quoted
from .scan.peek import first_names

__all__ = ["foreign_queue"]


class _Sign(NamedTuple):
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
    _Sign("the data of RabbitMQ", "ask the server: rabbitmqctl list_queues name messages consumers", pattern=r"msg_stores\Z"),
    _Sign("the data of RabbitMQ", "ask the server: rabbitmqctl list_queues name messages consumers", ("schema.DAT",)),
    _Sign("the data of RabbitMQ", "ask the server: rabbitmqctl list_queues name messages consumers", pattern=r"rabbit@[^/]+\Z"),
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
)  # fmt: skip
_PERSIST = "from persistqueue import Queue; print(Queue(%s).qsize())"
_DISKCACHE = "from diskcache import Cache; print(len(Cache(%s)))"


def foreign_queue(path: str, fd: int, names: Sequence[str]) -> tuple[str, str] | None:
    """Returns the kind of queue of another program, and what to do about it. ``names`` are the first ones of the directory
    ``fd``, which is ``path``."""
    have = set(names)

    def inside(folder: str) -> Sequence[str]:
        try:
            return first_names(folder, fd)
        except OSError:
            return ()  # no directory, or not ours to look into

    for sign in _SIGNS:
        if have.issuperset(sign.have) and _matches(sign, names, inside):
            return sign.what, _filled(sign.advice, path)
    if have.issuperset(("queue", ".lock")) and not inside("queue"):
        return "perhaps a huey FileStorage, but nothing is in it", f"if it is: spooltop --as 'huey FileStorage' {quoted(path)}"
    if any(re.match(r"q[0-9]{5}\Z", name) for name in names) and "info" in have:
        return "a file queue of persist-queue", f"{_python(_PERSIST, path)} counts it"
    if "cache.db" in have:
        return "a diskcache", f"{_python(_DISKCACHE, path)} counts it"
    return _kombu(path, names, inside) or _dirq(path, names)


def _matches(sign: _Sign, names: Sequence[str], inside: Callable[[str], Sequence[str]]) -> bool:
    if not sign.pattern:
        return True
    found = re.compile(sign.pattern)
    return any(found.match(name) for name in (inside(sign.within) if sign.within else names))


def _kombu(path: str, names: Sequence[str], inside: Callable[[str], Sequence[str]]) -> tuple[str, str] | None:
    """A directory of kombu whose folders have other names than those that the layout knows."""
    found = re.compile(_KOMBU)
    folder = next((one for one in names if any(found.match(name) for name in inside(one))), None)
    if folder is None:
        return None
    return "a directory of kombu's filesystem transport (Celery)", _filled(_KOMBU_SAYS, os.path.join(path, folder))


def _dirq(path: str, names: Sequence[str]) -> tuple[str, str] | None:
    """A simple queue of dirq in which nothing is: its folders alone do not tell what it is."""
    if names and all(re.match(r"[0-9a-f]{8}\Z", name) for name in names):
        count = _python("from dirq.QueueSimple import QueueSimple as Q; print(Q(%s).count())", path)
        return "perhaps a dirq directory queue, but nothing is in it", f"open it when an element is; {count} counts them"
    return None


def _filled(advice: str, path: str) -> str:
    """The advice with the path in it, quoted together with what follows it."""
    return re.sub(r"\{here\}(\S*?)(?=[;\s]|\Z)", lambda found: quoted(path + found[1]), advice)


def _python(words: str, path: str) -> str:
    """Returns a command that runs ``words`` on ``path``."""
    return f"python3 -c {quoted(words % json.dumps(os.path.abspath(path)))}"
