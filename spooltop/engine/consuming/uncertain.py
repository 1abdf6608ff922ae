"""Claims that may have been made: a server did the rename and reported an error, or the rename was interrupted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING
from weakref import ref

from ..dirs import OpenBoxes
from ..system.os_errors import translate
from .backlog import Backlog

if TYPE_CHECKING:
    from .claim import Claim

__all__ = ["UncertainClaims"]


class UncertainClaims:
    """The claims of one consumer that may have been made. A name is added before its rename and removed when somebody has the
    claim, so that an interrupt in between (Ctrl-C) leaves no claim that its own process does not know. A message that turns out
    not to be claimed goes back to ``backlog``; ``path`` is that of the spool."""

    def __init__(self, backlog: Backlog, path: str) -> None:
        self._backlog = backlog
        self._path = path
        self.names: dict[str, str] = {}
        """Name in ``cur`` → name in ``new``."""

    def was_made(self, error: OSError, name: str, claimed: str, boxes: OpenBoxes) -> bool:
        """True if a rename from ``name`` to ``claimed`` that reported ``error`` made the claim; False if the race was lost.

        Raises if the claim was not made, or if that cannot be determined: ``settled`` then checks again, as nobody puts back what
        a living process holds.
        """
        try:
            boxes.files.stat(claimed, boxes.cur)
            return True
        except FileNotFoundError:
            del self.names[claimed]
            if isinstance(error, FileNotFoundError):
                return False
            self._backlog.add(name)
        except OSError:
            pass  # still unknown
        raise translate(error, self._path, "claim") from error

    def settled(self, boxes: OpenBoxes, held: Mapping[str, ref[Claim]]) -> tuple[str, str] | None:
        """Returns the names in ``new`` and in ``cur`` of a message whose claim has turned out to exist and is not ``held``."""
        for claimed, name in list(self.names.items()):
            if claimed in held and (claim := held[claimed]()) is not None and not claim.done:
                continue
            try:
                boxes.files.stat(claimed, boxes.cur)
            except FileNotFoundError:
                self._backlog.add(name)
                del self.names[claimed]
                continue
            except OSError:
                continue  # still unknown
            return name, claimed
        return None
