"""System log, for messages that cannot be written anywhere else, and for copies of the journal if these are configured."""

from __future__ import annotations


def to_syslog(words: str, *, notice: bool = False) -> None:
    """Writes a warning, or a notice, with ``syslog(3)``. If no syslog daemon is running, the message is lost without an error."""
    import syslog  # few need it

    syslog.openlog("spooltop", syslog.LOG_PID, syslog.LOG_USER)
    syslog.syslog(syslog.LOG_NOTICE if notice else syslog.LOG_WARNING, words)
    syslog.closelog()
