"""The system's log, for what could be written nowhere else, and for copies of the audit log where they are asked for."""

from __future__ import annotations

__all__ = ["to_syslog"]


def to_syslog(words: str, *, notice: bool = False) -> None:
    """One warning, or one notice, ``syslog(3)``. Where no such daemon runs it is lost, and nothing fails."""
    import syslog  # few need it

    syslog.openlog("spooltop", syslog.LOG_PID, syslog.LOG_USER)
    syslog.syslog(syslog.LOG_NOTICE if notice else syslog.LOG_WARNING, words)
    syslog.closelog()
