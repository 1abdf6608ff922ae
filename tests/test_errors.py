"""Errors say what they are about, also when another process raised them."""

from __future__ import annotations

import pickle

from spooltop.errors import CursorMismatch, PutUnknown, SpooltopError


def test_an_error_comes_whole_out_of_a_pool_of_processes() -> None:
    for error in (
        SpooltopError("it broke", path="/spool", advice="mend it"),
        PutUnknown("the sync failed", id="a", ids=("a", "b"), path="/spool"),
        CursorMismatch("not so", found={"email": 7}, path="/cursors.json"),
    ):
        again = pickle.loads(pickle.dumps(error))
        assert type(again) is type(error) and str(again) == str(error) and vars(again) == vars(error)
