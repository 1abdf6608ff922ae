"""Commands that use a queue without an operator: init makes a spool, put enqueues."""

from __future__ import annotations

import os
from functools import partial
from typing import BinaryIO

from spooltop.errors import DoesNotAnswer, NotASpool, Refused, SpooltopError, UsageError
from spooltop.model import LIVE, Queue, escape, full_name, has_scheme, without_secrets
from spooltop.queues import open_queue
from spooltop.targets import identify_target

from ..context import SOME, Arguments, ProgressLine
from ..parser import id_of


def open_for(args: Arguments, *, action: str, hosts: str = "any", path: str = "") -> Queue:
    """Opens the queue at ``path``, by default that of the command, with the setting ``claims.hosts``. Raises with a suitable hint
    if there is none, or nothing may be put into it."""
    path = path or args.path
    if args.read_only:
        raise Refused(f"{action}: refused by --read-only", path=without_secrets(path))
    opened = partial(
        open_queue, path, action=action, durable=not args.no_durable, hosts=hosts, as_kind=args.as_kind,
        environ=args.terminal.environ,
    )  # fmt: skip
    return args.reach(path, opened)


def init(args: Arguments) -> int:
    path: str = args.path
    if args.read_only:
        raise Refused("init: refused by --read-only", path=without_secrets(path))
    if has_scheme(path):
        with open_queue(path, action="init", create=True, environ=args.terminal.environ) as queue:
            name = escape(queue.name)
            args.terminal.show([{"spool": name}], [f"{name} is ready"])
        return 0
    try:
        environ = args.terminal.environ
        target = args.reach(path, partial(identify_target, path, as_kind=args.as_kind, environ=environ))
    except NotASpool as error:
        _may_become_one(path, error)
    else:
        if target.read_only is not None:
            raise Refused(f"init: {target.read_only}", path=path)
        if target.kind != "spool":
            raise Refused(f"init: it holds {target.kind}", "name a new or an empty directory", path=path)
    made = [str(box) for box in LIVE if not os.path.isdir(os.path.join(path, box))]
    if made:
        try:
            from spooltop.engine import Spool

            Spool.create(path).close()
        except OSError as error:
            raise Refused(
                f"init: {os.strerror(error.errno or 0)}", "name a place that you may write, with space left", path=path
            ) from None
    done = f"made {escape(path)} with {', '.join(made)}"
    line = done if made else f"{escape(path)} is a spool already, nothing was changed"
    args.terminal.show([{"spool": escape(full_name(path)), "made": made}], [line])
    return 0


def _may_become_one(path: str, error: SpooltopError) -> None:
    """Raises unless ``path`` is an empty directory or an unused name in a directory."""
    if not path:
        raise error
    here = os.path.abspath(path)
    parent = os.path.dirname(here)
    for folder in (here, parent):
        spool, box = os.path.split(folder)
        if box in LIVE and all(os.path.isdir(os.path.join(spool, one)) for one in LIVE):
            raise Refused(f"init: {escape(folder)} is a box of a spool", "name a place outside of it", path=path) from None
    if os.path.lexists(path):
        if not os.path.isdir(path):
            raise Refused("init: not a directory", "name a new or an empty directory", path=path) from None
        with os.scandir(path) as entries:
            empty = next(entries, None) is None
        if not empty:
            raise Refused(
                "init: the directory is not empty, and not a spool", "name a new or an empty directory", path=path
            ) from None
        return
    if not os.path.isdir(parent):
        raise NotASpool("init: no such parent directory", f"first: mkdir -p {escape(parent)}", path=path) from None


def put(args: Arguments) -> int:
    from spooltop.engine import MessageId

    terminal = args.terminal
    files: list[str] = args.files or ["-"]
    if len(files) > 1 and (args.id is not None or args.key is not None):
        raise UsageError("put: --id and --key are for a single message", "put them one by one")
    if files.count("-") > 1:
        raise UsageError("put: stdin is named twice", "name - once")
    name = None if args.id is None else id_of(args.id)
    failed = 0
    line = ProgressLine(terminal, "put", total=len(files), hint="Ctrl-C stops", shown=not terminal.out_is_terminal)
    with open_for(args, action="put") as queue, line:
        enqueue = partial(queue.put, source=args.source, id=name, key=args.key)
        for number, file in enumerate(files):
            line.advance(number, words="files")
            try:
                if file == "-":
                    if terminal.stdin.isatty():
                        terminal.err("the message, and Ctrl-D at its end:")
                    done = enqueue(terminal.binary_in())
                else:
                    with args.reach(file, partial(_opened, file)) as data:
                        done = enqueue(data)
            except (OSError, DoesNotAnswer) as error:
                line.close()
                why = os.strerror(error.errno or 0) if isinstance(error, OSError) else error.what
                terminal.error(f"put: {escape(file)}: {why}; not enqueued")
                failed += 1
                continue
            duplicate = isinstance(done, MessageId) and done.duplicate
            terminal.show([{"id": escape(done), "duplicate": duplicate}], [escape(done)])
            terminal.flush()
    return SOME if failed else 0


def _opened(file: str) -> BinaryIO:
    return open(file, "rb")


