"""Capacity: how much is left of what a queue needs, the space of a file system or the memory of a server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from spooltop.records import dataclass

from ..units import count, percent, size
from ..vocabulary import Box

__all__ = ["Capacity", "Disk", "capacity_words"]


@dataclass(frozen=True, slots=True)
class Capacity:
    """Free part of a resource, in ``unit``. None: not known.

    ``name``: disk, inodes, memory, or what a backend calls its own. ``readonly``: nothing can be written to it. ``full``
    says what happens where nothing is left. ``per_user``: others may have more; ``reserved`` is what root has in all.
    """

    name: str
    free: int | None = None
    total: int | None = None
    unit: Literal["bytes", "things"] = "bytes"
    readonly: bool = False
    full: str = "puts fail"
    per_user: bool = False
    reserved: int | None = None

    @property
    def amount(self) -> str:
        """The free part in words: ``12GB``, ``880``."""
        return size(self.free) if self.unit == "bytes" else count(self.free)


@dataclass(frozen=True, slots=True)
class Disk:
    """Free space on the file system of a directory, for the current user (statvfs f_bavail, f_favail). None: not known. Front
    ends and rules read ``Observation.capacities``; here is what is of a file system alone."""

    fs_type: str = "?"
    bytes_free: int | None = None
    bytes_total: int | None = None
    inodes_free: int | None = None
    inodes_total: int | None = None
    readonly: bool = False
    root_bytes_free: int | None = None
    apart: tuple[Box, ...] = ()
    """Boxes on another mount than ``new``: rename(2) between the two fails, even within a file system."""
    readonly_here: bool = False
    """Only this mount is read-only, as in a container or a hardened service; through another one others may write."""

    @property
    def capacities(self) -> tuple[Capacity, ...]:
        """The space, and the inodes where their number is fixed: btrfs tells a total of 0."""
        space = Capacity(
            "disk", self.bytes_free, self.bytes_total, "bytes", self.readonly, "puts and claims fail", True, self.root_bytes_free
        )
        inodes = Capacity("inodes", self.inodes_free, self.inodes_total, "things")
        return (space, inodes) if self.inodes_total else (space,)


def capacity_words(capacities: tuple[Capacity, ...], disk: Disk | None) -> Iterator[str]:
    """Yields the words for each capacity; those of a disk begin with the type of its file system.

    >>> disk = Disk("ext4", 12_000_000_000, 30_000_000_000, 880, 1000)
    >>> list(capacity_words((*disk.capacities, Capacity("memory", 1_200_000, 4_000_000)), disk))
    ['ext4 12GB free 40%', 'inodes free 88%', 'memory 1.2MB free 30%']
    """
    for one in capacities:
        name = disk.fs_type if disk is not None and one.name == "disk" else one.name
        free = f"{name} {one.amount} free" if one.unit == "bytes" else f"{name} free"
        yield f"{free} {percent(one.free, one.total)}"
