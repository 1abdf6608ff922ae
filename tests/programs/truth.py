"""Compares what spooltop says of a queue with what is known of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from spooltop.model.backend import Listing, ListQuery
from spooltop.model.snapshot import Observation
from spooltop.model.vocabulary import Box, Row

from .spools import Made

__all__ = ["differences", "rows_of"]

def rows_of(observation: Observation, listing: Callable[[ListQuery], Listing]) -> list[Row]:
    """All rows of a look."""
    return [row for box, state in observation.boxes.items() if state.count for row in listing(ListQuery(box)).window(0, 999)]


def differences(made: Made, observation: Observation, rows: list[Row]) -> list[str]:
    """Says what is not as it was made; empty where all is."""
    wrong = []
    seen = Counter((row.box.value, row.id) for row in rows)
    wanted = Counter((box, id) for box, ids in made.boxes.items() for id in ids)
    wrong += [
        f"{id} in {box}: {seen[box, id]} instead of {wanted[box, id]}"
        for box, id in seen | wanted
        if seen[box, id] != wanted[box, id]
    ]
    for box, state in observation.boxes.items():
        if state.count is not None and state.count != len(made.boxes.get(box.value, ())):
            wrong.append(f"{box.value} counts {state.count}")
    for row in rows:
        wrong += [f"{row.id}: {words}" for words in _of_row(made, row)]
    found = {one.code: sorted(one.ids) for one in observation.findings}
    if found != {code: sorted(ids) for code, ids in made.findings.items()}:
        wrong.append(f"findings {found}")
    locks = {lock.path.rpartition("/")[2]: lock.verdict for lock in observation.locks}
    if locks != made.locks:
        wrong.append(f"locks {locks}")
    return wrong


def _of_row(made: Made, row: Row) -> list[str]:
    wrong = []
    for name, times, at in (("put", made.put, row.enqueued_at), ("due", made.due, row.not_before)):
        if row.id in times:
            began, ended = times[row.id]
            if at is None or not began - made.slack <= at <= ended:
                wrong.append(f"{name} {at}, not {began} to {ended}")
        elif name == "due" and at is not None:
            wrong.append(f"due {at}")
    said = (str(row.verdict.value) if row.verdict is not None else "", row.evidence)
    verdict, words = made.verdicts.get(row.id, ("", ""))
    if (row.box in (Box.CUR, Box.TMP) or row.id in made.verdicts) and (said[0] != verdict or words not in said[1]):
        wrong.append(f"verdict {said}, not {verdict} {words}")
    for name, has, want in (
        ("note", row.note, made.notes), ("reason", row.reason, made.reasons), ("source", row.source or "", made.sources),
    ):
        if has != want.get(row.id, ""):
            wrong.append(f"{name} {has!r}, not {want.get(row.id, '')!r}")
    return wrong
