"""Finding a message by its id, in any box. A listing of each: for the rare cases that name an id."""

from __future__ import annotations

from collections.abc import Iterator

from spooltop.model.vocabulary import ASIDE, Box

from .dirs import SpoolDirs
from .names import encode_value, parse
from .set_aside import entries

__all__ = ["find"]


def find(dirs: SpoolDirs, id: str) -> tuple[Box, str] | None:
    """Returns the box and the name of a message, None if it is in no box. A file in ``tmp`` is not delivered and does not
    count."""
    starts = (id, encode_value(id), "%2E")  # an id that starts with a dot
    for box, name, claimed in _names(dirs):
        if name.startswith(starts) and parse(name, claimed=claimed).id == id:
            return box, name
    return None


def _names(dirs: SpoolDirs) -> Iterator[tuple[Box, str, bool]]:
    # The way a message goes, and new once more at the end: one that is put back during the look is not missed.
    for box in (Box.NEW, Box.CUR, *ASIDE, Box.NEW):
        if box in ASIDE:
            for entry in entries(dirs, box):
                yield box, entry.name, True
        else:
            for name in dirs.files.list(dirs.box(box)):
                if not name.startswith("."):
                    yield box, name, box is Box.CUR
