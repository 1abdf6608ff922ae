"""Identity of the user who makes a change, for the audit log."""

from __future__ import annotations

import os
import pwd
from collections.abc import Callable, Mapping

from msgspec import Struct

from spooltop.model.vocabulary import Json


def _terminal() -> str | None:
    try:
        return os.ttyname(2)
    except OSError:
        return None  # cron, a pipe: no terminal is a fact and no failure


class Actor(Struct, frozen=True):
    """User who makes a change. ``user`` and ``uid`` are the effective ones; the other fields come from the environment and the
    terminal, None if these do not contain them."""

    user: str
    uid: int
    pid: int
    sudo_user: str | None = None
    ssh_connection: str | None = None
    tty: str | None = None

    @staticmethod
    def here(environ: Mapping[str, str] = os.environ, terminal: Callable[[], str | None] = _terminal) -> Actor:
        """Returns the actor of this process."""
        uid = os.geteuid()
        try:
            user = pwd.getpwuid(uid).pw_name
        except KeyError:
            user = str(uid)
        return Actor(
            user, uid, os.getpid(), environ.get("SUDO_USER"), environ.get("SSH_CONNECTION"), terminal()
        )  # fmt: skip

    def words(self) -> dict[str, Json]:
        """Returns the members of an audit line."""
        return {
            "user": self.user, "uid": self.uid, "sudo_user": self.sudo_user, "ssh_connection": self.ssh_connection,
            "tty": self.tty, "pid": self.pid,
        }  # fmt: skip
