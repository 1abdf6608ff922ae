"""Operations of the engine, cut off at each change and failing at each call: what a consumer gets is each message once, whole."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from .cuts import EVERY, LASTING, Mode
from .sweeps import sweep_work
from .works import WORKS

MODES = {
    "cut": Mode(), "cut, short": Mode(short=True), "cut, staged": Mode(staged=True), "cut, old": Mode(old=True),
    "cut after an error": Mode(errno.EIO, EVERY), "ENOSPC": Mode(errno.ENOSPC, LASTING), "EIO": Mode(errno.EIO, EVERY),
    "EIO, done": Mode(errno.EIO, LASTING - {"create", "open_lasting"}, done=True),
    "ENOSPC, lasting": Mode(errno.ENOSPC, LASTING, old=True, lasting=True),
    "EIO, lasting": Mode(errno.EIO, EVERY, lasting=True), "ENOSPC, short": Mode(errno.ENOSPC, LASTING, short=True),
}  # fmt: skip
LONG = ("cut", "cut, old", "cut after an error", "ENOSPC", "EIO", "EIO, done")
"""Modes of the long run; ``python -m tests.matrix`` takes all, and the trials too, which start processes."""


def rows() -> list[object]:
    return [
        pytest.param(name, mode, id=f"{name}, {mode}", marks=() if WORKS[name].plain and mode == "cut" else pytest.mark.long)
        for name in WORKS if name != "trials" for mode in LONG
    ]  # fmt: skip


@pytest.mark.filterwarnings("ignore:claim on:ResourceWarning")  # a claim whose end failed is held, and closing gives it back
@pytest.mark.parametrize(("name", "mode"), rows())
def test_cut_off_or_failing_at_each_call(memory: Path, name: str, mode: str) -> None:
    assert sweep_work(WORKS[name], MODES[mode], memory, is_cut=mode.startswith("cut"))
