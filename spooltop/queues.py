"""Queues for those who put and work: ``open_queue`` opens a directory or what another backend serves, by its path or URL."""

from __future__ import annotations

import os
from collections.abc import Mapping

from .backends.registry import identify
from .errors import Refused
from .model.backend import OpenAs
from .model.queue import Queue, QueueOptions
from .model.target import has_scheme

__all__ = ["open_queue"]


def open_queue(
    spec: str,
    *,
    action: str = "open",
    durable: bool = True,
    hosts: str = "any",
    as_spool: bool = False,
    keys_kept: float | None = None,
    create: bool = False,
    environ: Mapping[str, str] | None = None,
) -> Queue:
    """Opens the queue that ``spec`` names: a path, or the URL of a server. Creates nothing
    without ``create``, which makes what is missing on a server: ``engine.Spool.create`` makes a directory.

    ``durable``: a put and an ack survive power loss where the queue can promise it (``Queue.guarantees``). ``hosts`` is the
    setting ``claims.hosts``, ``as_spool`` treats a mail folder as a job spool. ``keys_kept``: seconds for which the key of a put
    is remembered, None: as the queue does by itself. ``environ`` takes the place of this process's
    environment, in which a backend finds its settings. ``action`` is the word for this in errors.

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
    variables = os.environ if environ is None else environ

    def words() -> Mapping[str, str]:
        from .settings import load

        return load(variables).words

    backend, target = identify(spec, OpenAs(as_spool, environ=words() if has_scheme(spec) else variables))
    if target.read_only is not None:
        raise Refused(f"{action}: {target.read_only}", path=target.display_name)
    return backend.queue(target, QueueOptions(action, durable, hosts, as_spool, keys_kept, create, words))
