"""Conditions that must hold after a power cut, one operation at a time, by the model of ``pagecache``."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from spooltop.engine import Spool
from spooltop.model.vocabulary import Action

from .operatorcut import TAKEN, WORK, operator_cuts, taken_cuts
from .pagecache import Disk, RecordingFiles
from .powercut import cuts
from .world import OPERATIONS


@pytest.mark.parametrize("old", [False, True], ids=["renameat2", "link and unlink"])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_power_cut_after_any_change_loses_nothing_that_was_confirmed(memory: Path, operation: str, old: bool) -> None:
    found = list(cuts(memory, [operation], old=old))
    assert [wrong for _, wrong in found if wrong] == []
    assert len(found) > 5


@pytest.mark.parametrize("keeps_order", [pytest.param(True, marks=pytest.mark.long), False])
@pytest.mark.parametrize(
    ("work", "old", "in_common"),
    [*product(WORK, [False], [False, True]), *product(WORK, [True], [False]), (WORK[0], True, True)],
    ids=lambda value: value if isinstance(value, bool) else " then ".join(value),
)
def test_what_an_operator_was_told_is_so_after_a_power_cut(
    memory: Path, work: tuple[Action, ...], old: bool, keeps_order: bool, in_common: bool
) -> None:
    found = list(operator_cuts(memory, work, old=old, keeps_order=keeps_order, in_common=in_common))
    assert [wrong for _, wrong in found if wrong] == []
    assert len(found) > 5


@pytest.mark.parametrize("keeps_order", [True, False])
@pytest.mark.parametrize("action", TAKEN)
def test_a_claim_that_no_sync_has_seen_is_in_one_place_after_an_operator_took_it(
    memory: Path, action: Action, keeps_order: bool
) -> None:
    found = list(taken_cuts(memory, action, old=False, keeps_order=keeps_order))
    assert [wrong for _, wrong in found if wrong] == []
    assert len(found) > 5


@pytest.mark.parametrize(
    ("operation", "number"), [*product(("put", "cursor"), (1, 2)), *product(("release", "ack"), (1, 2, 3))]
)
def test_a_sync_that_failed_is_not_trusted_when_it_is_tried_again(memory: Path, operation: str, number: int) -> None:
    found = list(cuts(memory, [operation], old=False, fail_sync=number))
    assert [wrong for _, wrong in found if wrong] == []
    assert len(found) > 5


def test_a_group_survives_whole_once_it_is_confirmed(memory: Path) -> None:
    Spool.create(memory / "spool").close()
    disk, files = Disk(memory / "spool"), RecordingFiles()
    with Spool(memory / "spool", files=files) as spool:
        ids = spool.put_many([b"whole " * 1000] * 40)
    for event in files.events:
        disk.apply(event)
    for number, cut in enumerate(disk.cuts(1)):
        disk.lay_out(cut, memory / str(number))
        assert sorted(path.name for path in (memory / str(number) / "new").iterdir()) == ids
        assert {path.read_bytes() for path in (memory / str(number) / "new").iterdir()} == {b"whole " * 1000}


def test_a_key_that_was_put_and_acked_is_no_second_message_after_a_power_cut(memory: Path) -> None:
    Spool.create(memory / "spool").close()
    disk, files = Disk(memory / "spool"), RecordingFiles()
    with Spool(memory / "spool", files=files) as spool:
        spool.put(b"once", key="order 17")
        claim = spool.claim()
        assert claim is not None
        claim.ack()
    for event in files.events:
        disk.apply(event)
    for number, cut in enumerate(disk.cuts(1)):
        disk.lay_out(cut, memory / str(number))
        with Spool(memory / str(number)) as spool:
            spool.put(b"once", key="order 17")
            assert spool.depth() == 0
