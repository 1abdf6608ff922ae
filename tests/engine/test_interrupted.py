"""An interrupt at any line of ``claim`` leaves no claim that its living process does not know."""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import spooltop
from spooltop.engine import Claim, Spool

PACKAGE = os.path.dirname(spooltop.__file__)

# A claim that exists when the interrupt comes is given back, as every claim that is dropped; so is a file just opened.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


class InterruptAt:
    """Raises KeyboardInterrupt at the ``wanted``-th line of spooltop that runs while it is entered."""

    def __init__(self, wanted: int) -> None:
        self.left = wanted

    def __enter__(self) -> InterruptAt:
        self._before = sys.gettrace()
        sys.settrace(self._trace)
        return self

    def __exit__(self, *_exception: object) -> None:
        sys.settrace(self._before)

    def _trace(self, frame: FrameType, event: str, _argument: Any) -> Any:
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        if event == "line":
            self.left -= 1
            if self.left == 0:
                sys.settrace(self._before)
                raise KeyboardInterrupt
        return self._trace


CALLS: dict[str, Callable[[Spool], Claim | None]] = {
    "claim": lambda spool: spool.claim(),
    "claim, waiting": lambda spool: spool.claim(timeout=5),
    "claims": lambda spool: next(spool.claims()),
}


@pytest.mark.parametrize("kept", [False, True], ids=["the traceback goes", "the traceback stays"])
@pytest.mark.parametrize("call", CALLS)
def test_after_an_interrupt_at_any_line_every_message_is_handed_out(tmp_path: Path, call: str, kept: bool) -> None:
    """``kept``: whoever catches the interrupt keeps the traceback, and in it all that was under way."""
    for line in itertools.count(1):
        path = tmp_path / str(line)
        with Spool.create(path, durable=False) as spool:
            ids = spool.put_many([b"1", b"2"])
            os.utime(path / "new", (1, 1))  # long ago: a listing that is complete is not repeated
            errors: list[BaseException] = []
            interrupt = InterruptAt(line)
            try:
                with interrupt:
                    claim = CALLS[call](spool)
            except KeyboardInterrupt as error:
                errors += [error] * kept
            else:
                assert interrupt.left > 0 and claim is not None
                claim.release()
                break
            held = list(spool.claims())
            spool.ack_many(held)
            errors.clear()
            late = list(spool.claims())
            spool.ack_many(late)
            assert sorted(claim.id for claim in held + late) == ids, line
            assert os.listdir(path / "cur") == os.listdir(path / "new") == []
    assert line > 50, "nothing was traced"


def test_after_an_interrupt_at_any_line_closing_gives_every_message_back(tmp_path: Path) -> None:
    for line in itertools.count(1):
        path = tmp_path / str(line)
        with Spool.create(path, durable=False) as spool:
            id = spool.put(b"")
            interrupt = InterruptAt(line)
            try:
                with interrupt:
                    claim = spool.claim()
            except KeyboardInterrupt:
                pass  # it comes to whoever holds the spool, and that leaves it
            else:
                assert interrupt.left > 0 and claim is not None
                claim.ack()
                break
        [name] = os.listdir(path / "new")
        assert name.startswith(id) and os.listdir(path / "cur") == [], line
    assert line > 50, "nothing was traced"
