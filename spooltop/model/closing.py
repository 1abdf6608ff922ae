"""The ``with`` block of whatever has to be closed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self


class Closing(ABC):
    """Base of what is closed at the end of its ``with`` block."""

    __slots__ = ()

    @abstractmethod
    def close(self) -> None:
        """Ends its use."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        self.close()
