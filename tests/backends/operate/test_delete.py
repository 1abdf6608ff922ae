"""Emptying the trash and purging at once: the only two that delete, and they go on when nothing can be written."""

from __future__ import annotations

import errno
import os

import pytest

from spooltop.errors import AuditFailed
from spooltop.model.filters.selection import Selection
from spooltop.model.operations.plan import Outcome
from spooltop.model.vocabulary import Action, Box
from tests.backends.conftest import Interpose
from tests.builders import SpoolWorld

TRASH = Selection(box=Box.TRASH, everything=True)


def trashed(world: SpoolWorld, *names: str) -> str:
    for name in names:
        world.put(name, "x" * 5000)
    return world.do(Action.PURGE, Selection(ids=names))[0].operation


@pytest.mark.parametrize(("code", "full"), [(errno.ENOSPC, True), (errno.EDQUOT, True), (errno.EROFS, True), (errno.EIO, False)])
@pytest.mark.parametrize("now", [False, True])
def test_a_full_disk_stops_every_change_but_those_that_free_space(
    world: SpoolWorld, before_call: Interpose, code: int, full: bool, now: bool
) -> None:
    trashed(world, "a")
    world.put("b")

    def fail(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    for operation in ("write", "create", "mkdir"):
        before_call(operation, fail)
    purge = Selection(ids=("b",))
    with pytest.raises(AuditFailed):
        world.do(Action.PURGE, purge)
    before = world.census()
    if not full:
        with pytest.raises(AuditFailed):
            world.do(Action.EMPTY, TRASH)
        assert world.census() == before
        return
    _, result = world.do(Action.PURGE, purge, now=True) if now else world.do(Action.EMPTY, TRASH)
    assert result.count(Outcome.DONE) == 1
    [[left]] = world.census().values()
    assert left.endswith("/a") if now else left == "new/b"
    assert any("not in the audit log" in note for note in result.notes)
    assert any("without a line in the journal" in note for note in result.notes)
