"""Claims whose rename reported an error: a server may have done it all the same."""

from __future__ import annotations

from ..dirs import OpenBoxes
from ..system.os_errors import translate
from .backlog import Backlog

__all__ = ["UncertainClaims"]


class UncertainClaims:
    """The claims of one consumer that may have been made. A message that turns out not to be claimed goes back to ``backlog``;
    ``path`` is that of the spool."""

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
            if isinstance(error, FileNotFoundError):
                return False
            self._backlog.add(name)
        except OSError:
            self.names[claimed] = name
        raise translate(error, self._path, "claim") from error

    def settled(self, boxes: OpenBoxes) -> tuple[str, str] | None:
        """Returns the names in ``new`` and in ``cur`` of a message whose claim has turned out to exist."""
        for claimed, name in list(self.names.items()):
            try:
                boxes.files.stat(claimed, boxes.cur)
            except FileNotFoundError:
                del self.names[claimed]
                self._backlog.add(name)
                continue
            except OSError:
                continue  # still unknown
            del self.names[claimed]
            return name, claimed
        return None
