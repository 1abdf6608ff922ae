"""Opens the operator of a group."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence

from spooltop.errors import Unavailable

from ...journal.log_files import STATE_DIR, LogFiles
from ...journal.log_store import StateLogs
from ..client import Endpoint
from ..stream_names import StreamNames
from ..streams.look import Looker
from ..streams.server.requests import ServerTrouble, StreamServer
from ..streams.verdicts import PidJudge, judged_consumers
from .connection import connection_to
from .operator import StreamOperator
from .rows import JudgedConsumer

__all__ = ["open_operator"]

def open_operator(
    endpoint: Endpoint, names: StreamNames, shown: str, judge: PidJudge, *, clock: Callable[[], float],
    state: str | None, read_only: str | None,
) -> StreamOperator:  # fmt: skip
    """Opens the operator of the group ``names.group``, whose address is ``shown``. ``judge`` knows which consumers
    are processes of this host, as the views do; ``state`` is the folder of this user's own state, for the journal."""
    store = StateLogs(shown, LogFiles(), state_dir=STATE_DIR if os.geteuid() == 0 else state)
    looking = _LookingJudge(endpoint, names, shown, judge)
    return StreamOperator(connection_to(endpoint, shown), names, store, judge=looking.judged, clock=clock, read_only=read_only)


class _LookingJudge:
    """Judges consumers as the views do, by a look of its own."""

    def __init__(self, endpoint: Endpoint, names: StreamNames, shown: str, judge: PidJudge) -> None:
        self._endpoint = endpoint
        self._names = names
        self._shown = shown
        self._judge = judge

    def judged(self, consumers: Sequence[str]) -> Mapping[str, JudgedConsumer]:
        """Raises ``Unavailable``."""
        server = StreamServer(self._endpoint)
        try:
            look = Looker(server, self._names, time.monotonic).look()
        except ServerTrouble as trouble:
            raise Unavailable(f"look: {trouble.what}", path=self._shown, advice=trouble.advice) from None
        finally:
            server.close()
        known = judged_consumers(look, self._judge)
        found = {one: known[one] for one in consumers if one in known}
        return {name: JudgedConsumer(one.verdict, one.evidence, one.owner, one.ends) for name, one in found.items()}
