"""Several spools as the Spools view shows them: one of each kind of line."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from spooltop.model.snapshot import BoxState, Pause, Problem, Rates, Severity, Snapshot
from spooltop.model.vocabulary import Box

from ..tui.fake import FakeSpools, Glance
from . import states, values

__all__ = ["SceneSpools"]

_PAUSE = Pause("root", values.NOW - 7200, "a schema change")
_PAUSED = Problem("paused", Severity.WARNING, "paused by root for 2h: a schema change", view="new")
_ABANDONED = Problem("tmp-abandoned", Severity.WARNING, "tmp abandoned 3, longest 12m", 3)


def _paused() -> Snapshot:
    calm = states.calm()
    boxes = {**calm.observation.boxes, Box.NEW: BoxState(Box.NEW, 9120, True, 9_000_000, False, values.NOW - 7200)}
    history = {**calm.history, Box.NEW: tuple(8000.0 + 56 * cell for cell in range(20))}
    return replace(
        calm, observation=replace(calm.observation, boxes=boxes, paused=_PAUSE), problems=(_PAUSED,), history=history,
        rates=replace(calm.rates, done=0, done_window=60.0),
    )  # fmt: skip


def glances() -> Sequence[Glance]:
    calm = states.calm()
    return (
        Glance("/var/spool/memex", snapshot=values.trouble()),
        Glance("/var/spool/import", snapshot=replace(calm, problems=(_ABANDONED,))),
        Glance("/var/spool/mailout", snapshot=replace(calm, rates=Rates(60, 18, 18, 0, True, 0.0, 300))),
        Glance("/var/spool/batch", snapshot=_paused()),
        Glance("/var/spool/far", snapshot=calm, silent_for=41.0, step="readdir of new"),
        Glance("/var/spool/svc", error="permission denied (owner svc, mode 0700)"),
        Glance("/var/spool/fresh", counted={Box.TMP: 0, Box.NEW: 310_422, Box.CUR: 1}),
    )


class SceneSpools(FakeSpools):
    """A watch whose every glance is the same; the first target can be opened."""

    def __init__(self) -> None:
        super().__init__({}, glances())

    def now(self) -> float:
        return values.NOW
