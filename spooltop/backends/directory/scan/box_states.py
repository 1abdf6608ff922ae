"""Derives the state of each box from its scan and the judged rows."""

from __future__ import annotations

from collections.abc import Sequence

from spooltop.model.look.observation import BoxState, VerdictCounts
from spooltop.model.row import Row
from spooltop.model.vocabulary import Box, Verdict

from .scan import BoxScan

__all__ = ["count_verdicts", "state_of_cur", "state_of_new", "state_of_tmp"]


def _state(box: Box, scan: BoxScan, size: int | None, oldest: float | None, *, estimated: bool = False) -> BoxState:
    if scan.error:
        return BoxState(box, None, False, None, False, None, scan.error, scan.as_of)
    return BoxState(box, len(scan.names) + len(scan.staged), scan.complete, size, estimated, oldest, "", scan.as_of)


def _oldest(scan: BoxScan) -> float | None:
    return None if scan.oldest_us is None else scan.oldest_us / 1e6


def state_of_new(scan: BoxScan) -> BoxState:
    return _state(Box.NEW, scan, scan.bytes, _oldest(scan), estimated=scan.bytes_estimated)


def state_of_cur(scan: BoxScan, claims: Sequence[Row] | None, *, whole: bool) -> BoxState:
    """``claims`` None: a mail folder, where nothing is judged and the oldest is the oldest put."""
    if claims is None:
        return _state(Box.CUR, scan, None, _oldest(scan))
    since = [row.in_box_since for row in claims if row.in_box_since is not None]
    return _state(Box.CUR, scan, sum(row.size or 0 for row in claims) if whole else None, min(since, default=None))


def state_of_tmp(scan: BoxScan, files: Sequence[Row], *, whole: bool) -> BoxState:
    since = [row.in_box_since for row in files if row.in_box_since is not None]
    return _state(Box.TMP, scan, sum(row.size or 0 for row in files) if whole else None, min(since, default=None))


def count_verdicts(claims: Sequence[Row], files: Sequence[Row]) -> VerdictCounts:
    held = [row.verdict for row in claims]
    tmp = [row.verdict for row in files]
    return VerdictCounts(
        held.count(Verdict.ALIVE), held.count(Verdict.DEAD), held.count(Verdict.UNKNOWN),
        tmp.count(Verdict.WRITING), tmp.count(Verdict.ABANDONED), tmp.count(Verdict.UNKNOWN),
    )  # fmt: skip
