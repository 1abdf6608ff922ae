"""Queues as the programs themselves left them: the right layout, box, time, verdict and evidence of each file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from spooltop.backends.layouts.load import SHIPPED, read_layout
from spooltop.backends.layouts.reader import LayoutReader
from spooltop.backends.layouts.sort_files import open_root, why_not

from ..backends.layouts.queues import Around
from .spools import MAKERS
from .stored import unpacked
from .truth import differences, rows_of

LAYOUTS = [read_layout(os.path.join(SHIPPED, name)) for name in sorted(os.listdir(SHIPPED))]


@pytest.mark.parametrize("name", MAKERS)
def test_a_stored_queue_is_read_as_it_was_made(name: str, tmp_path: Path) -> None:
    spool, made = unpacked(name, tmp_path)
    root = open_root(str(spool))
    fitting = [layout for layout in LAYOUTS if why_not(layout, root) is None]
    os.close(root)
    assert [layout.name for layout in fitting] == [made.layout]
    reader = LayoutReader(str(spool), fitting[0], Around())
    observation = reader.see()
    rows = rows_of(observation, reader.listing)
    reader.close()
    assert differences(made, observation, rows) == []
