"""The journal of messages without its moves: the numbers that the list of operations shows.

Journals are large, and nearly all of them is names and inodes. A line is shortened in its text, so that the rest is not parsed.
"""

from __future__ import annotations

from typing import NamedTuple

from spooltop.model.operations.plan import Outcome
from spooltop.patterns import pattern

from ...journal.record_log import HEAD_AT_MOST, Head, LoggedOperation, RecordType
from .journal import MOVES, MoveIntent
from .moves import decode_outcome

__all__ = ["SUMMARIES", "BatchTally", "MoveSummary"]

_MOVES = pattern(rb',"(?:moves|items)":\[\{"from":(?:null|"[^"]*"),"to":(null|")')
_RESULTS = b',"results":['
_AS_PLANNED = b'{"outcome":"done","reason":"","moved":true,"ino":'


class BatchTally(NamedTuple):
    """Numbers of moves of a batch by outcome, and of those that were made, whatever else went wrong."""

    done: int
    skipped: int
    failed: int
    moved: int

    @classmethod
    def decode(cls, head: Head) -> BatchTally:
        outcome = decode_outcome(head.value)
        others = list(outcome.others.values())
        planned = len(outcome) - len(others)
        done, skipped, failed = (sum(one.outcome is which for one in others) for which in Outcome)
        return cls(planned + done, skipped, failed, planned + sum(one.moved for one in others))


MoveSummary = LoggedOperation[MoveIntent, BatchTally]
"""All numbers that the journal holds of one operation on messages, and the moves of batches without a result."""


def _shortened(line: bytes) -> bytes:
    """Leaves the folders of the first move of an intent without its messages, and of the results of an earlier version their
    number if all are as planned. A line that this program would not write so stays as it is."""
    if not line.endswith(b"]}"):
        return line
    if (moves := _MOVES.search(line, 0, HEAD_AT_MOST)) is not None:
        folders = b'"from":"new","to":null' if moves[1] == b"null" else b'"from":null,"to":"new"'
        run = b',"moves":[{%b,"names":[],"inos":0,"sizes":0,"ctimes":0,"tokens":null}]}' % folders
        return line[: moves.start()] + run
    if (start := line.find(_RESULTS, 0, HEAD_AT_MOST)) >= 0:
        tried = line.count(b'{"outcome":"', start)
        if tried == line.count(_AS_PLANNED, start):
            return line[:start] + b',"tried":%d,"others":[]}' % tried
    return line


SUMMARIES = RecordType("journal", "the journal", "batch", MoveIntent.decode, BatchTally.decode, MOVES.ends, _shortened)
"""The record type of the journal of messages, as it is read for summaries."""
