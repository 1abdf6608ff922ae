"""Figures of the tests: their lines, and the inner modules of spooltop that they import.

    python -m tests.figures [PATH …]

Instruments (bench, reliability, mutate, programs) and recorded output are not counted.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from .test_structure import imported, modules

ROOT = Path(__file__).parent
INSTRUMENTS = ("bench", "reliability", "mutate", "programs")
PUBLIC = re.compile(r"spooltop(\.(control|engine(\.tickets)?|model(\..+)?|errors|cli(\.main)?|__main__|settings))?\Z")


def files(paths: Iterable[Path] = (ROOT,)) -> Iterator[Path]:
    """The Python files of the tests below ``paths``."""
    for path in paths:
        for file in sorted(path.resolve().rglob("*.py")) if path.is_dir() else [path.resolve()]:
            if file.relative_to(ROOT).parts[0] not in INSTRUMENTS:
                yield file


def inner_imports(file: Path) -> set[str]:
    """The modules of spooltop that a file of the tests imports although they are not public."""
    tree = ast.parse(file.read_bytes())
    return {name for name in imported("tests", tree, True, modules()) if not PUBLIC.match(name)}


def figures(paths: Iterable[Path]) -> str:
    """
    >>> figures([ROOT / "needs.py"])
    '65 lines; 0 of 1 files import 0 inner modules'
    """
    counted = list(files(paths))
    inner = [inner_imports(file) for file in counted]
    lines = sum(len(file.read_text(encoding="utf-8").splitlines()) for file in counted)
    importing = sum(bool(names) for names in inner)
    return f"{lines:,} lines; {importing} of {len(counted)} files import {len(set().union(*inner))} inner modules"


if __name__ == "__main__":
    print(figures(map(Path, sys.argv[1:] or [ROOT])))
