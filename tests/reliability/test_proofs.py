"""The quick part of every proof holds."""

from __future__ import annotations

import pytest

from . import PROOFS, proof
from .figures import load, parts, section

LEAST = {
    "crash": 100,
    "storm": 20_000,
    "operators": 500,
    "containers": 6_000,
    "power": 150,
    "errors": 1_600,
    "faults": 28,
    "spin": 100_000,
    "full": 3_000,
    "calls": 500,
    "tickets": 800,
    "workers": 300,
    "moving": 40,
    "race": 4_000,
    "machine": 3_000,
    "straced": 40,
    "watched": 20,
    "names": 100,
}
"""Fewest trials that a quick part may have: one that tries nothing proves nothing. ``test_powercut`` tries that of ``powercut``
case by case."""


LONG = (
    "storm", "operators", "power", "faults", "spin", "calls", "tickets", "workers", "moving", "race", "machine", "straced",
    "errors", "containers", "crash", "names",
)  # fmt: skip


@pytest.mark.early
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.long] if name in LONG else []) for name in LEAST])
def test_the_quick_part_holds(name: str) -> None:
    said: list[str] = []
    found = proof(name).run(True, said.append)
    assert found.violations == 0, "\n".join(said)
    if found.skipped and not found.trials:
        pytest.skip(f"{found.skipped:,} trials: {'; '.join(said)}")
    assert found.trials >= LEAST[name], found


def test_every_proof_has_a_quick_part_in_the_suite() -> None:
    assert {*LEAST, "powercut"} == set(PROOFS) and set(LONG) < set(LEAST)


def test_the_results_show_the_figures_that_are_kept() -> None:
    assert set(load()) <= set(PROOFS)
    assert not any(figure.violations for figure in load().values())
    assert parts()[1] == section(PROOFS), "renew it: python -m tests.reliability --write"
