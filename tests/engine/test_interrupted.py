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


@pytest.mark.parametrize(
    ("call", "then"),
    [*((call, f"the traceback {then}") for call in CALLS for then in ("goes", "stays")), ("claim", "the spool is closed")],
)
def test_after_an_interrupt_at_any_line_every_message_is_handed_out(tmp_path: Path, call: str, then: str) -> None:
    """Whoever catches the interrupt may keep the traceback, and in it all that was under way."""
    for line in itertools.count(1):
        path = tmp_path / str(line)
        errors: list[BaseException] = []
        with Spool.create(path, durable=False) as spool:
            ids = spool.put_many([b"1", b"2"])
            os.utime(path / "new", (1, 1))  # long ago: a listing that is complete is not repeated
            interrupt = InterruptAt(line)
            try:
                with interrupt:
                    claim = CALLS[call](spool)
            except KeyboardInterrupt as error:
                errors += [error] * (then == "the traceback stays")
            else:
                assert interrupt.left > 0 and claim is not None
                claim.release()
                break
            if then != "the spool is closed":
                held = list(spool.claims())
                spool.ack_many(held)
                errors.clear()
                late = list(spool.claims())
                spool.ack_many(late)
                assert sorted(claim.id for claim in held + late) == ids, line
        waiting = sorted(name.partition(",")[0] for name in os.listdir(path / "new"))
        assert waiting == ids * (then == "the spool is closed") and os.listdir(path / "cur") == [], line
    assert line > 50, "nothing was traced"
