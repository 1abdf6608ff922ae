"""Thresholds of all problems, with their defaults."""

from __future__ import annotations

from spooltop.model import Environ, Frozen, UsageError, parse_age

PREFIX = "SPOOLTOP_"


class Thresholds(Frozen):
    """Times are seconds, sizes bytes. Each is the setting ``SPOOLTOP_<NAME>``; durations have the usual form (``10m``)."""

    no_consumer: float = 60.0
    """Longest time that ``new`` may be non-empty without a claim."""
    new_old: float = 600.0
    new_growing: float = 60.0
    """Least time over which growth is measured."""
    paused_long: float = 3600.0
    """Time for which a spool may be paused without being reported."""
    claim_long: float = 600.0
    claim_unknown: float = 0.0
    tmp_old: float = 300.0
    poison_deaths: int = 3
    failing_attempts: int = 3
    """Attempts after which a message fails, unless they ended because consumers died."""
    failing_releases: int = 10
    """Failed attempts in five minutes, with none of their messages done, that are reported before that."""
    lock_blocked: float = 60.0
    lock_stale: float = 300.0
    """Age from which on a lock file, itself the lock, of an exited holder is reported."""
    lock_failures: int = 5
    """Per cent of attempts to take the engine's own locks that may time out in five minutes."""
    lock_tries: int = 20
    """Least number of attempts for that percentage."""
    clock_ahead: float = 10.0
    """Largest distance of file times in the future."""
    disk_low: int = 16_000_000
    inodes_low: int = 100
    cursor_window: float = 300.0
    """Period over which reverts of a cursor are counted."""
    trash_retention: float = 30 * 86400.0
    """Time in the trash after which a message has expired: it is shown as expired and offered for deletion. 0: never."""

    @classmethod
    def from_settings(cls, settings: Environ) -> Thresholds:
        """Reads thresholds from settings such as the environment; those that are not set keep their defaults. Raises
        ``UsageError``.

        >>> Thresholds.from_settings({"SPOOLTOP_CLAIM_LONG": "15s"}).claim_long
        15.0
        """
        found: dict[str, float | int] = {}
        for field, kind in cls.__annotations__.items():
            name = PREFIX + field.upper()
            if name not in settings:
                continue
            text = settings[name].strip()
            if kind != "int":
                try:
                    found[field] = parse_age(text)
                except UsageError as error:
                    raise UsageError(f"{name}={settings[name]}: {error.what}", error.advice) from None
            elif text.isascii() and text.isdigit() and len(text) <= 18:
                found[field] = int(text)
            else:
                raise UsageError(f"{name}={text} is not a whole number", f"write {name}=3")
        return cls().replace(**found)
