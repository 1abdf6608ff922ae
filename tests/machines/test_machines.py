"""Plan, apply and undo of each source, walked by its state machine: fixed seeds reach every rare state, a fresh one is printed."""

from __future__ import annotations

from collections import Counter
from random import SystemRandom

import pytest

from . import MACHINES
from .machine import run

STEPS = {"directory": 250, "cursors": 120, "locks": 150, "pause": 80, "layouts": 40}
SEEDS = {"directory": (1, 2, 3), "cursors": (1,), "locks": (1, 3), "pause": (1,), "layouts": (1, 3, 4, 7, 8, 9)}
reached: dict[str, Counter[str]] = {source: Counter() for source in MACHINES}


@pytest.mark.parametrize(("source", "seed"), [(source, seed) for source, seeds in SEEDS.items() for seed in seeds])
def test_each_step_leaves_what_the_model_expects(source: str, seed: int) -> None:
    reached[source] += run(MACHINES[source], seed, STEPS[source])


@pytest.mark.parametrize("source", MACHINES)
def test_a_fresh_seed_finds_nothing(source: str) -> None:
    seed = SystemRandom().randrange(1 << 32)
    print(f"python -m tests.machines --source {source} --seed {seed} --steps {STEPS[source]}")
    run(MACHINES[source], seed, STEPS[source])


@pytest.mark.parametrize("source", MACHINES)
@pytest.mark.long
def test_many_steps(source: str) -> None:
    seed = SystemRandom().randrange(1 << 32)
    print(f"python -m tests.machines --source {source} --seed {seed} --steps {4 * STEPS[source]}")
    run(MACHINES[source], seed, 4 * STEPS[source])
