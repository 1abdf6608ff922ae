"""Queues made by the programs themselves now, opened as a user opens them."""

from __future__ import annotations

from pathlib import Path

import pytest

from spooltop.control import open_control

from .spools import MAKERS
from .truth import differences, rows_of

pytestmark = [pytest.mark.programs, pytest.mark.timeout(600)]


@pytest.mark.parametrize("name", MAKERS)
def test_a_queue_is_shown_as_its_program_made_it(name: str, tmp_path: Path) -> None:
    made = MAKERS[name](tmp_path / name)
    with open_control(str(tmp_path / name), watch=False, settings={}) as control:
        observation = control.look().observation
        assert differences(made, observation, rows_of(observation, control.listing)) == []
