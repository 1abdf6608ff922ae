"""The figure that a proof ends in, where the last figures are kept, and the table in RESULTS.md."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

__all__ = ["BEGIN", "END", "FIGURES", "RESULTS", "Figure", "load", "machine", "parts", "renew", "section", "store", "table"]

HERE = Path(__file__).parent
FIGURES = HERE / "figures.json"
RESULTS = HERE / "RESULTS.md"
BEGIN, END = "<!-- proof -->", "<!-- /proof -->"


@dataclass(frozen=True)
class Figure:
    """Result of one proof. ``violations`` is 0 where it holds; ``skipped`` counts the trials for which a component was not
    available, ``note`` names it. ``explained`` reports further observations ("412 redeliveries, each after a kill"). ``seconds``
    is the duration, ``date`` the day (ISO) and ``machine`` the machine of the run."""

    name: str
    bar: str
    trials: int
    violations: int
    skipped: int = 0
    explained: str = ""
    note: str = ""
    seconds: float = 0.0
    date: str = ""
    machine: str = ""


def machine() -> str:
    """The kind of machine, without its name."""
    return f"{os.cpu_count()} cores, Linux {platform.release().split('-')[0]}, Python {platform.python_version()}"


def load() -> dict[str, Figure]:
    """The figures that are kept, by the name of their proof."""
    if not FIGURES.exists():
        return {}
    return {name: Figure(**found) for name, found in json.loads(FIGURES.read_text()).items()}


def store(figures: Mapping[str, Figure]) -> None:
    """Keeps ``figures`` beside those of other proofs that were measured before."""
    now = {"date": time.strftime("%Y-%m-%d"), "machine": machine()}
    kept = load() | {name: replace(figure, **now) for name, figure in figures.items()}
    record = {name: asdict(kept[name]) for name in sorted(kept)}
    FIGURES.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n")


def table(figures: Iterable[Figure]) -> str:
    """Formats the figures as a Markdown table."""
    lines = ["| figure | bar | trials | violations | skipped | seconds | |", "|---|---|---:|---:|---:|---:|---|"]
    for one in figures:
        seen = "; ".join(words for words in (one.explained, one.note) if words)
        counts = f"{one.trials:,} | {one.violations:,} | {one.skipped:,} | {one.seconds:,.0f}"
        lines.append(f"| {one.name} | {one.bar} | {counts} | {seen} |")
    return "\n".join(lines) + "\n"


def section(order: Sequence[str]) -> str:
    """The text between the marks of RESULTS.md: the figures that are kept, in the ``order`` of their proofs."""
    kept = load()
    shown = [kept[name] for name in order if name in kept]
    if not shown:
        return ""
    where = sorted({f"{one.machine}, {one.date}" for one in shown})
    return f"\n{table(shown)}\nMeasured on {'; on '.join(where)}.\n"


def parts() -> tuple[str, str, str]:
    """The text of RESULTS.md before the marks, between them, and after."""
    before, _, rest = RESULTS.read_text().partition(BEGIN)
    between, found, after = rest.partition(END)
    if not found:
        raise SystemExit(f"tests/reliability/RESULTS.md has no {BEGIN} … {END}")
    return before + BEGIN, between.removeprefix("\n"), END + after


def renew(order: Sequence[str]) -> None:
    """Writes the table of the kept figures into RESULTS.md."""
    before, _, after = parts()
    RESULTS.write_text(f"{before}\n{section(order)}{after}")
