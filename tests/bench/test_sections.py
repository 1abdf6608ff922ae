"""Every measurement has its place in RESULTS.md, and what it prints lands there, and nowhere else."""

from __future__ import annotations

import pytest

from .__main__ import RESULTS, RUNS, place, renewed


@pytest.mark.parametrize("name", RUNS)
def test_the_results_have_a_place_for_each_measurement(name: str) -> None:
    assert len(place(name).findall(RESULTS.read_text())) == 1


def test_what_is_printed_stands_in_its_place_alone() -> None:
    text = "a\n<!-- bench idle -->\nold\n<!-- /bench -->\n<!-- bench soak -->\nkept\n<!-- /bench -->\nz\n"
    section = renewed(text, "idle", "1 message\n| a |\n|---|")
    assert section.startswith("a\n<!-- bench idle -->\n\n1 message\n\n| a |\n|---|\n\nMeasured on ")
    assert "old" not in section
    assert section.endswith("<!-- /bench -->\n<!-- bench soak -->\nkept\n<!-- /bench -->\nz\n")
    assert renewed(section, "idle", "1 message\n| a |\n|---|") == section
