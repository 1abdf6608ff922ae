"""The system's log, for what could be written nowhere else."""

from __future__ import annotations

__all__ = ["to_syslog"]


def to_syslog(words: str) -> None:
    """One warning, ``syslog(3)``. Where no such daemon runs it is lost, and nothing fails."""
    import syslog  # only a full disk needs it

    syslog.openlog("spooltop", syslog.LOG_PID, syslog.LOG_USER)
    syslog.syslog(syslog.LOG_WARNING, words)
    syslog.closelog()
