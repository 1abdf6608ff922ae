"""The figure that a proof ends in, where the last figures are kept, and the table that the README shows."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

__all__ = ["BEGIN", "END", "FIGURES", "README", "Figure", "load", "machine", "renew", "store", "table"]

HERE = Path(__file__).parent
FIGURES = HERE / "figures.json"
README = HERE.parent.parent / "README.md"
BEGIN, END = "<!-- proof -->", "<!-- /proof -->"


@dataclass(frozen=True)
class Figure:
    """What came of one proof. ``violations`` is 0 where it holds; ``skipped`` counts the trials for which a component was not to
    be had. ``explained`` says what else there was to see ("412 redeliveries, each after a kill"); ``seconds`` it took."""

    name: str
    bar: str
    trials: int
    violations: int
    skipped: int = 0
    explained: str = ""
    seconds: float = 0.0


def machine() -> str:
    """The kind of machine, without its name."""
    return f"{os.cpu_count()} cores, Linux {platform.release().split('-')[0]}, Python {platform.python_version()}"


def load() -> dict[str, Figure]:
    if not FIGURES.exists():
        return {}
    return {name: Figure(**found) for name, found in json.loads(FIGURES.read_text())["figures"].items()}


def store(figures: Mapping[str, Figure]) -> None:
    """Keeps ``figures`` beside those of other proofs that were measured before."""
    kept = {**load(), **figures}
    told = {name: asdict(kept[name]) for name in sorted(kept)}
    held = {"machine": machine(), "date": time.strftime("%Y-%m-%d"), "figures": told}
    FIGURES.write_text(json.dumps(held, indent=1, ensure_ascii=False) + "\n")


def table(figures: Iterable[Figure]) -> str:
    """As Markdown."""
    lines = ["| figure | bar | trials | violations | skipped | what was seen |", "|---|---|---:|---:|---:|---|"]
    lines += [
        f"| {one.name} | {one.bar} | {one.trials:,} | {one.violations:,} | {one.skipped:,} | {one.explained} |" for one in figures
    ]
    return "\n".join(lines) + "\n"


def section() -> str:
    """What stands in the README between the marks."""
    held = json.loads(FIGURES.read_text())
    return f"{table(load().values())}\n{held['machine']}; {held['date']}.\n"


def renew() -> None:
    """Writes the table of the figures that are kept into the README."""
    text = README.read_text()
    before, _, rest = text.partition(BEGIN)
    _, found, after = rest.partition(END)
    if not found:
        raise SystemExit(f"README.md has no {BEGIN} … {END}")
    README.write_text(f"{before}{BEGIN}\n{section()}{END}{after}")
