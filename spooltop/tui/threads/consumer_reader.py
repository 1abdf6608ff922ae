"""Reads the consumers while their view is in front."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from spooltop.model import units
from spooltop.model.look.consumers import ConsumerList, ConsumerRow

from ..control_protocol import ControlProtocol
from .messages import ConsumersRead, Found


class ConsumerReader:
    """Reads the consumers after each look, and posts them where a screen would show something else than before."""

    def __init__(self, control: ControlProtocol, post: Callable[[Found], object]) -> None:
        self._control = control
        self._post = post
        self._posted: Hashable = None

    def read(self, *, wanted: bool) -> None:
        """Reads the consumers if they are ``wanted``, else forgets what was shown."""
        if not wanted:
            self._posted = None
            return
        found = self._control.consumers()
        shown = _shown(found)
        if shown != self._posted:
            self._posted = shown
            self._post(ConsumersRead(found))


def _shown(found: ConsumerList) -> Hashable:
    """Equal for two lists that look alike on a screen, apart from ages, which are painted with the clock."""
    return (found.more, found.error, units.age(found.window), tuple(map(_row, found.consumers)))


def _row(one: ConsumerRow) -> Hashable:
    usage, rate = one.usage, one.rate
    used = None if usage is None else (_rounded(usage.cpu, 2), units.size(usage.memory), usage.stopped, usage.command)
    return (
        one.key, one.evidence, one.owner, one.claims, one.claimed_at, one.last_claim_at, one.ids, used, _rounded(rate.done, 2),
        _rounded(rate.failed, 2),
    )  # fmt: skip


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)
