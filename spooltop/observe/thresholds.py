"""From when on something is told: every threshold with its default, in one place."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

from ..errors import UsageError
from ..model.units import parse_age

__all__ = ["Thresholds"]

PREFIX = "SPOOLTOP_"


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Times are seconds, sizes bytes. Each is the setting ``SPOOLTOP_<NAME>``; times are written as everywhere (``10m``)."""

    no_consumer: float = 60.0
    """``new`` is not empty and nobody claimed for so long."""
    new_old: float = 600.0
    new_growing: float = 60.0
    """Growth is told once it was watched for so long."""
    claim_long: float = 600.0
    claim_unknown: float = 0.0
    tmp_old: float = 300.0
    poison_deaths: int = 3
    failing_attempts: int = 3
    """A message that was tried so often, and not because its consumers died, fails."""
    failing_releases: int = 10
    """So many attempts that ended in vain in five minutes, with none of their messages done, are told before that."""
    lock_blocked: float = 60.0
    lock_stale: float = 300.0
    """A lock that is its own file, of a holder that is gone, is told once it stood for so long."""
    lock_failures: int = 5
    """Per cent of the tries for the engine's own locks that were in vain in the last five minutes."""
    lock_tries: int = 20
    """Of fewer tries no share is told."""
    clock_ahead: float = 10.0
    """Times of files so far in the future are told."""
    disk_low: int = 16_000_000
    inodes_low: int = 100
    cursor_window: float = 300.0
    """Put-backs of a cursor are counted over so long."""
    trash_retention: float = 30 * 86400.0
    """What stands in the trash for so long has expired: it is shown as such and offered for deletion. 0: nothing ever does."""

    @classmethod
    def from_settings(cls, settings: Mapping[str, str]) -> Thresholds:
        """Thresholds out of settings such as the environment; what is not set keeps its default. Raises ``UsageError``.

        >>> Thresholds.from_settings({"SPOOLTOP_CLAIM_LONG": "15s"}).claim_long
        15.0
        """
        found: dict[str, float | int] = {}
        for field in dataclasses.fields(cls):
            name = PREFIX + field.name.upper()
            if name in settings:
                found[field.name] = _number(name, settings[name]) if field.type == "int" else _age(name, settings[name])
        return dataclasses.replace(cls(), **found)  # type: ignore[arg-type]  # each value was read as its field's type


def _age(name: str, text: str) -> float:
    try:
        return parse_age(text.strip())
    except UsageError as error:
        raise UsageError(f"{name}={text}: {error.what}", advice=error.advice) from None


def _number(name: str, text: str) -> int:
    text = text.strip()
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise UsageError(f"{name}={text} is no whole number", advice=f"write {name}=3")
    return int(text)
