"""Checks that an operator makes just before a batch: about the names of that batch alone, and about nobody else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from spooltop.backends.directory.liveness.processes import Process
from spooltop.backends.directory.options import OpenOptions
from spooltop.backends.directory.rescan import FreshLook
from spooltop.backends.directory.world import World
from spooltop.model.operations.progress import Progress
from spooltop.model.vocabulary import Box, Verdict

from .table import FakeProcesses

CLAIM = "1795220920443125.9155.vm:2,P4242"
FILE = "1795220920443125.4290.here"


def test_the_evidence_on_a_batch_is_read_again_without_a_look_at_the_whole_spool(
    spool: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = FakeProcesses()
    for number in range(3):
        (spool / "cur" / CLAIM.replace("443125", f"44312{number}")).touch()
        (spool / "tmp" / FILE.replace("443125", f"44312{number}")).touch()
    taken, kept, gone = sorted(os.listdir(spool / "cur"))
    written, left, moved = sorted(os.listdir(spool / "tmp"))
    fresh = FreshLook(str(spool), OpenOptions(), World(processes=table))
    claims, files = fresh.names(Box.CUR, Progress()), fresh.names(Box.TMP, Progress())
    assert list(claims) == [[taken, kept, gone]] and list(files) == [[written, left, moved]]
    assert claims.judge([taken, kept, gone], [""] * 3).verdict == (Verdict.DEAD.value,)
    assert files.judge([written, left, moved], [""] * 3).verdict == (Verdict.ABANDONED.value,)
    monkeypatch.setattr("spooltop.backends.directory.rescan.scan_box", None)
    (spool / "cur" / gone).unlink()
    (spool / "cur" / taken).unlink()
    (spool / "cur" / "another").touch()  # keeps the inode
    (spool / "cur" / taken).touch()
    table.pids[4242] = Process(4242, 10.0)
    (spool / "tmp" / moved).unlink()
    found = os.stat(spool / "tmp" / written)
    table.open_files[found.st_dev, found.st_ino] = (4290,)
    table.boot += 10
    judged = fresh.again(Box.CUR, [taken, kept, gone])
    assert {name: verdict for name, (verdict, _) in judged.items()} == {taken: Verdict.ALIVE, kept: Verdict.DEAD}
    judged = fresh.again(Box.TMP, [written, left, moved])
    assert {name: verdict for name, (verdict, _) in judged.items()} == {written: Verdict.WRITING, left: Verdict.ABANDONED}
    with pytest.raises(TypeError):
        fresh.names(Box.CUR, Progress())
    fresh.close()
