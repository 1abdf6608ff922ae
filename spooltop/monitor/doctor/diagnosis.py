"""Result of one check of ``spooltop doctor``."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from spooltop.model.look.problem import Problem, Severity
from spooltop.model.look.snapshot import Snapshot
from spooltop.model.place import PlaceFacts
from spooltop.records import dataclass

__all__ = ["Diagnosis", "Examined", "FillRate", "Health", "ok", "problem", "warning", "worst_of"]


class Health(StrEnum):
    """Result in a word. The order is that of the exit codes 0, 1, 2."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """``text`` is what was found, ``remedy`` what to do about it, or to type; empty if nothing needs to be done. Both contain
    escaped names only."""

    check: str
    health: Health
    text: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class FillRate:
    """Bytes and inodes that the file system lost within ``seconds``; negative if it gained some."""

    seconds: float
    bytes: int | None = None
    inodes: int | None = None


@dataclass(frozen=True, slots=True)
class Examined:
    """Everything that the checks look at: the facts of the place, a look at the target, how fast the file system fills
    (None: not measured), and the directories that killed demos left."""

    place: PlaceFacts
    snapshot: Snapshot
    filling: FillRate | None = None
    demos: tuple[str, ...] = ()


def ok(check: str, text: str) -> Diagnosis:
    return Diagnosis(check, Health.OK, text)


def warning(check: str, text: str, remedy: str) -> Diagnosis:
    return Diagnosis(check, Health.WARNING, text, remedy)


def problem(check: str, text: str, remedy: str) -> Diagnosis:
    return Diagnosis(check, Health.PROBLEM, text, remedy)


def worst_of(problems: Iterable[Problem], *codes: str) -> tuple[Health, str]:
    """Returns the health that the problems with these codes mean, and their texts; ``OK`` without any."""
    found = [one for one in problems if one.code in codes]
    if not found:
        return Health.OK, ""
    critical = any(one.severity is Severity.CRITICAL for one in found)
    return Health.PROBLEM if critical else Health.WARNING, "; ".join(one.text for one in found)
