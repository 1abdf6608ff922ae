"""Queues for those who put and work: ``open_queue`` opens a directory or what another backend serves, by its path or URL."""

from __future__ import annotations

import os

from spooltop.model import Environ, OpenAs, Queue, QueueOptions, Refused

from .backends.registry import identify
from .settings import load


def open_queue(
    spec: str,
    *,
    action: str = "open",
    durable: bool = True,
    hosts: str = "any",
    as_kind: str = "",
    create: bool = False,
    environ: Environ | None = None,
) -> Queue:
    """Opens the queue that ``spec`` names: a path, or the URL of a server. Creates nothing
    without ``create``, which makes what is missing on a server: ``engine.Spool.create`` makes a directory.

    ``durable``: a put and an ack survive power loss where the queue can promise it (``Queue.guarantees``). ``hosts`` is the
    setting ``claims.hosts``, ``as_kind`` says what a path is: ``spool``, also for a mail folder, or a layout. ``environ`` takes
    the place of this process's environment, to which the files with settings are added. ``action`` is the word for this in
    errors.

    Raises ``NotASpool`` with the hint that fits, ``Refused`` for what can only be looked at, ``Unreadable``, ``UsageError``.

    >>> import tempfile
    >>> from spooltop import open_queue
    >>> from spooltop.engine import Spool
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Spool.create(folder + "/jobs").close()
    ...     with open_queue(folder + "/jobs") as queue:
    ...         id = queue.put(b"hello")
    ...         with queue.claim() as claim:
    ...             print(claim.data, claim.id == id)
    ...         print(queue.depth(), *sorted(queue.guarantees))
    b'hello' True
    0 delay durable key-forever one-holder ordered
    """
    found = load(os.environ if environ is None else environ)
    asked = OpenAs(as_kind or found.kind_of(spec), environ=found.words)
    backend, target = identify(spec, asked)
    if target.read_only is not None:
        raise Refused(f"{action}: {target.read_only}", path=target.display_name)
    return backend.queue(target, QueueOptions(action, durable, hosts, asked.as_spool, create, lambda: found.words))
