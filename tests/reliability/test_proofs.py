"""The quick part of every proof holds."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.needs import need

from . import PROOFS, proof
from .figures import load, parts, section

ROOT = Path(__file__).parents[2]

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
    "together": 10_000,
    "sources": 300,
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
    "errors", "containers", "crash", "names", "together", "sources",
)  # fmt: skip


NEEDS = {
    "calls": ("strace",), "containers": ("unshare", "root"), "full": ("root",), "moving": ("redis-server", "strace"),
    "power": ("mkfs.ext4", "losetup", "root"), "race": ("redis-server",), "spin": ("spin", "gcc"), "straced": ("strace",),
    "tickets": ("redis-server",), "watched": ("strace",),
}  # fmt: skip
"""Those that leave out trials where something is missing."""


def marks_of(name: str) -> list[pytest.MarkDecorator]:
    rooted = [pytest.mark.root] if "root" in NEEDS.get(name, ()) else []
    return [pytest.mark.long, *rooted] if name in LONG else rooted


@pytest.mark.early
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", [pytest.param(name, marks=marks_of(name)) for name in LEAST])
def test_the_quick_part_holds(name: str) -> None:
    said: list[str] = []
    found = proof(name).run(True, said.append)
    assert found.violations == 0, "\n".join(said)
    if found.skipped:
        need(*NEEDS.get(name, ()))
    assert not found.skipped, f"{found.skipped:,} trials left out: {'; '.join(said)}"
    assert found.trials >= LEAST[name], found


def test_every_proof_has_a_quick_part_in_the_suite() -> None:
    assert {*LEAST, "powercut"} == set(PROOFS) and set(LONG) < set(LEAST)


def test_the_results_show_the_figures_that_are_kept() -> None:
    assert set(load()) <= set(PROOFS)
    assert not any(figure.violations for figure in load().values())
    assert parts()[1] == section(PROOFS), "renew it: python -m tests.reliability --write"


def test_each_fault_that_got_out_names_a_test_that_exists() -> None:
    text = (ROOT / "tests/reliability/RESULTS.md").read_text()
    rows = [row.split(" | ") for row in text.partition("## Faults that got out")[2].splitlines() if row.startswith("| ")][1:]
    assert len(rows) >= 14
    for row in rows:
        fault, since, command, noticed = row
        assert re.match(r"[0-9a-f]{8}, \d{4}-\d\d-\d\d$", since), fault
        assert command, fault
        named = re.findall(r"`([^` ]*/[^` ]*)`", noticed)
        assert named, fault
        for path, _, function in (name.partition("::") for name in named):
            assert (f"def {function}(" if function else "") in (ROOT / path).read_text(), fault
