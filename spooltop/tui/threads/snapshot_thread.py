"""Takes snapshots in a thread. It touches no widget: it puts past-tense messages into its mailbox.

It runs a loop: look, list the view in front, read the chosen message, wait for a change. A look may hang for ever (a dead NFS
server): the thread is a daemon thread, so quitting does not wait for it, and ``looking_for`` says how long it has lasted. What
the screens want is one frozen ``Requested``; a newer request replaces an older one that was not served yet.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from msgspec.structs import replace

from spooltop.errors import SpooltopError

from ..change_filter import ChangeFilter
from ..control_protocol import ControlProtocol
from .consumer_reader import ConsumerReader
from .current_step import CurrentStep
from .id_tracker import IdTracker
from .list_server import ListServer
from .mailbox import Mailbox
from .messages import ListRequest, LookFailed, Requested
from .pace import Pace
from .payloads import PayloadReader
from .worker import outcome

T = TypeVar("T")


class SnapshotThread:
    """Owns the thread. The lists, the followed ids, the payloads and the consumers are served by one object each."""

    def __init__(
        self,
        control: ControlProtocol,
        mailbox: Mailbox | None = None,
        *,
        pace: Pace | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.mailbox = mailbox or Mailbox()
        self._control = control
        self._monotonic = monotonic
        self._pace = pace or Pace()
        self._step = CurrentStep(monotonic)
        self._changes = ChangeFilter()
        self._lists = ListServer(control, self.mailbox.put, self._changes, monotonic)
        self._ids = IdTracker(control, self.mailbox.put)
        self._payloads = PayloadReader(control, self.mailbox.put)
        self._consumers = ConsumerReader(control, self.mailbox.put)
        self._wanted = Requested()
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="snapshots", daemon=True)

    def start(self) -> None:
        """Starts the thread; does nothing where it runs."""
        if self._thread.ident is None:
            self._thread.start()

    def looking_for(self) -> float:
        """Seconds since the present work began (a look, a list, a payload); 0 where there is none."""
        return self._step.seconds()

    def looking_at(self) -> str:
        """A description of the present work."""
        return self._step.name or self._control.current_step()

    def request(self, request: ListRequest) -> None:
        """Sets what the screen shows from now on. It is served at once, even between two looks."""
        if request != self._wanted.list:
            self._want(lambda wanted: replace(wanted, list=request))

    def follow(self, ids: Sequence[str], since: float = 0.0) -> None:
        """Follows these messages after each look; none where ``ids`` is empty."""
        self._want(lambda wanted: replace(wanted, ids=tuple(ids), since=since))

    def run(self, job: Callable[[], T], reply: Callable[[T | SpooltopError], object]) -> None:
        """Runs ``job``, which shares the scan with the looks, between two of them and calls ``reply`` in the thread."""
        self._want(lambda wanted: replace(wanted, jobs=(*wanted.jobs, lambda: reply(outcome(job)))))

    def look_again(self) -> None:
        """Asks for a full scan, now."""
        self._want(lambda wanted: replace(wanted, rescan=True))

    def stop(self, timeout: float = 0.0) -> bool:
        """Asks the thread to end; True where it did within ``timeout`` seconds. It is a daemon thread, so waiting is optional."""
        self._want(lambda wanted: replace(wanted, stopped=True))
        if self._thread.ident is not None:
            self._thread.join(timeout)
        return not self._thread.is_alive()

    def _want(self, change: Callable[[Requested], Requested]) -> None:
        with self._changed:
            self._wanted = replace(change(self._wanted), version=self._wanted.version + 1)
            self._changed.notify_all()
        self._control.wake()

    def _take(self) -> Requested:
        """Returns what is wanted now; what is wanted once is not any more."""
        with self._changed:
            wanted = self._wanted
            self._wanted = replace(wanted, rescan=False, jobs=())
            return wanted

    def _run(self) -> None:
        due = True
        shown = -1
        while not (wanted := self._take()).stopped:
            look = due or wanted.rescan
            began = self._monotonic()
            if wanted.version != shown:
                self._changes.pass_next()
                shown = wanted.version
            try:
                self._serve(wanted, look)
            except (SpooltopError, OSError) as error:
                self._failed(str(error), wanted)
            except Exception as error:  # noqa: BLE001  a defect below is shown and must not end the thread that looks
                self._failed(f"internal error, please report: {error!r}", wanted)
            if wanted.jobs:
                with self._step.working("asking who has a file"):
                    for job in wanted.jobs:
                        job()
            if look:
                self._pace.looked(began, self._monotonic())
            due = self._wait(wanted.version)

    def _failed(self, error: str, wanted: Requested) -> None:
        self.mailbox.put(LookFailed(error, wanted.list.query))
        self._changes.pass_next()

    def _serve(self, wanted: Requested, look: bool) -> None:
        query = wanted.list.query
        with self._step.working():
            snapshot = self._control.look(wanted.rescan) if look else None
            if snapshot is not None:
                self._pace.found(snapshot.observation)
            self._step.name = f"listing {query.box}" if query is not None else ""
            self._lists.serve(wanted.list, snapshot, lambda replaceable: self._overtaken(wanted, replaceable))
            self._ids.track(wanted.ids, wanted.since, looked=look)
            self._step.name = "reading a message"
            self._payloads.read(wanted.list.payload, looked=look)
            self._step.name = "reading the consumers"
            self._consumers.read(wanted=wanted.list.consumers)

    def _overtaken(self, served: Requested, replaceable: bool) -> bool:
        """True where the list that is being made for ``served`` is not needed any more: another one is wanted; where an older
        one may be shown instead, where anything else is."""
        self._step.made_progress()
        wanted = self._wanted
        return wanted.stopped or (
            wanted.version != served.version if replaceable else wanted.list.query != served.list.query
        )  # fmt: skip

    def _wait(self, version: int) -> bool:
        """Waits until there is work; True where a look is due. Two looks have a rest between them."""
        with self._changed:
            while (served := self._wanted.version == version) and (rest := self._pace.rest(self._monotonic())) > 0:
                self._changed.wait(rest)
        if served:
            self._pace.waited(self._control.changes(self._pace.quiet))
        # A request may have woken the thread. It is served without a look, but never delays a look that is due.
        return self._wanted.version == version or self._pace.overdue(self._monotonic())
