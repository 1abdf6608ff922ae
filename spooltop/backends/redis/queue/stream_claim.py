"""A message of a stream that this process has claimed."""

from __future__ import annotations

import json
import os
import threading
import time
import warnings
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, BinaryIO, NoReturn

from spooltop.engine.arguments import check_seconds
from spooltop.engine.consuming.consumer import end_block
from spooltop.errors import Refused, SpooltopError

if TYPE_CHECKING:
    from .group_consumer import GroupConsumer


# The lease of a consumer: a key that ends by itself, renewed by a thread as long as the process runs.

_RENEWALS = 3
"""Renewals within the time of a lease."""


class ConsumerLease:
    """A lease of ``seconds``, taken and renewed by ``renew``, which raises ``SpooltopError`` where that is not possible.

    ``held`` is True only while the last renewal is younger than the lease, counted from before it was sent: a consumer claims
    nothing without it, since others may take its claims by then. CLOCK_BOOTTIME counts, so that a suspended machine finds its
    leases ended.
    """

    def __init__(self, renew: Callable[[], object], seconds: float) -> None:
        self.seconds = seconds
        self._renew = renew
        self._until = 0.0
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()

    @property
    def held(self) -> bool:
        return _now() < self._until

    def take(self) -> None:
        """Takes the lease, unless it is held, and keeps it from now on. Raises what ``renew`` raises."""
        if self.held:
            return
        with self._starting:
            if not self.held:
                self._renew_now()
            if self._thread is None and not self._stop.is_set():
                self._thread = threading.Thread(target=self._keep, name="lease", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """Ends the renewals. The lease itself runs on until it ends or is given up."""
        self._stop.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
        self._until = 0.0

    def _renew_now(self) -> None:
        began = _now()
        self._renew()
        self._until = began + self.seconds

    def _keep(self) -> None:
        while not self._stop.wait(self.seconds / _RENEWALS):
            try:
                self._renew_now()
            except SpooltopError:
                continue  # ``held`` turns False by itself, and whoever claims then is told why


def _now() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


DATA, SOURCE = b"data", b"source"
"""Fields of an entry that ``put`` made."""


class StreamClaim:
    """A claimed message. ``with claim:`` acks at the end, and releases with a delay on an exception.

    Each step is checked against the consumer and the number of deliveries, in one step of the server: if the claim was taken
    away, it raises ``ClaimLost``. A claim that is dropped without ack, release or reject is handed back, with a warning. The
    process that claimed is the holder: in a forked child each step raises ``ClaimLost``, and leaving the block does nothing.
    """

    __slots__ = ("__weakref__", "_consumer", "_fields", "attempt", "done", "id", "pid")

    def __init__(self, consumer: GroupConsumer, id: str, fields: Mapping[bytes, bytes], attempt: int) -> None:
        self._consumer = consumer
        self._fields = fields
        self.id = id
        """Id of its entry: ``<milliseconds>-<number>``."""
        self.attempt = attempt
        """Number of this attempt, from 1: how often the message was delivered."""
        self.done = False
        self.pid = os.getpid()
        """Pid of the process that claimed."""

    @property
    def inherited(self) -> bool:
        """True in a child of the process that claimed."""
        return self.pid != os.getpid()

    @property
    def token(self) -> tuple[str, int]:
        """Id and number of deliveries: each step is checked against them and the consumer."""
        return self.id, self.attempt

    @property
    def name(self) -> str:
        """The claim itself: its id and the number of the attempt."""
        return f"{self.id},{self.attempt}"

    @property
    def source(self) -> str | None:
        """Producer of the message; None if it has none."""
        source = self._fields.get(SOURCE)
        return None if source is None else _text(source)

    @property
    def data(self) -> bytes:
        """Content of the message. An entry of another producer, which has no field ``data``, is a JSON object of its fields.
        Raises ``ClaimLost`` in a forked child."""
        if self.inherited:
            raise self._consumer.lost([self])
        data = self._fields.get(DATA)
        if data is not None:
            return data
        return json.dumps({_text(name): _text(value) for name, value in self._fields.items()}).encode()

    def open(self) -> BinaryIO:
        """Opens the content as a file for reading, with a descriptor; it lies in memory."""
        made = os.fdopen(os.memfd_create("message"), "w+b")
        made.write(self.data)
        made.seek(0)
        return made

    def ack(self) -> None:
        """Acknowledges the message. It is deleted from the stream where no other group reads it."""
        self._consumer.ack_many([self])

    def release(self, delay: float = 0, *, data: object = None, ended: str | None = None) -> None:
        """Hands the message back, to be claimed again after ``delay`` seconds. At the limit of attempts it is rejected instead.
        ``ended`` says how the attempt ended, for the reason of that. Raises ``Refused`` for other ``data``: an entry of a stream
        cannot be changed."""
        if data is not None:
            advice = "put the remaining part as a message of its own, and ack"
            raise Refused("an entry of a stream cannot be changed", advice=advice)
        check_seconds("delay", delay, or_none=False)
        self._consumer.release(self, delay, ended)

    def reject(self, reason: str, *, ended: str | None = None) -> None:
        """Sets the message aside in the stream of rejected ones, with the reason and with how the attempt ended."""
        self._consumer.reject(self, reason, ended)

    @property
    def ended(self) -> bool:
        """True after ack, release, reject, or after it was found lost."""
        return self.done

    def end(self) -> None:
        """Marks the claim as no longer held; tells the server nothing."""
        self.done = True

    def __enter__(self) -> StreamClaim:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exception: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        if not self.done and not self.inherited:
            end_block(self, exception)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a StreamClaim cannot be pickled: it belongs to the process that holds it; pass its id or its data on")

    def __repr__(self) -> str:
        return f"<StreamClaim {self.id!r} attempt {self.attempt}{' ended' if self.done else ''}>"

    def __del__(self) -> None:
        if not self.done and not self.inherited and self._consumer.dropped(self):
            warnings.warn(f"claim on {self.id!r} was dropped without ack, release or reject", ResourceWarning, stacklevel=2)


def _text(raw: bytes) -> str:
    return raw.decode(errors="surrogateescape")
