"""Proofs: what the engine and the operators promise, tried at every point at which it could break.

    python -m tests.reliability [--quick] [--write] [NAME …]

Each proof is a module with ``NAME``, ``BAR`` (what has to hold) and ``run(quick, say) -> Figure``. The quick parts belong to the
test suite; the whole ones take minutes, and their table stands in RESULTS.md.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Protocol, cast

from .figures import Figure

__all__ = ["PROOFS", "Proof", "proof"]

PROOFS = (
    "crash", "powercut", "storm", "operators", "containers", "power", "errors", "faults", "spin", "full", "calls", "tickets",
    "together", "sources", "workers", "moving", "race", "machine", "straced", "watched", "names",
)  # fmt: skip
"""The modules, in the order of the table."""


class Proof(Protocol):
    NAME: str
    BAR: str
    run: Callable[[bool, Callable[[str], None]], Figure]


def proof(name: str) -> Proof:
    return cast("Proof", importlib.import_module(f"{__name__}.{name}"))
