"""A spool with claims of the dead, for tests of the command line."""

from __future__ import annotations

from pathlib import Path

from .builders import SpoolWorld, message_id

__all__ = ["Desk", "new_desk"]


class Desk(SpoolWorld):
    id = staticmethod(message_id)

    def claim_and_die_here(self, waiting: str) -> None:
        """Has a consumer claim the oldest message, which is ``waiting``, and die."""
        assert self.claim_dead()[0].startswith(waiting)


def new_desk(root: Path) -> Desk:
    return Desk(root)
