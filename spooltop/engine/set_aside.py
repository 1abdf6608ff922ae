"""Messages that were set aside: ``.spooltop/{held,rejected,trash}/<operation>/<name>``, each with its metadata in the same
directory.

A message keeps its exact name, including the tail of a claim, so that it can go back to its place. The metadata (origin, reason,
time, who) are one JSON object in ``.<name>.meta``, written before the move: no message is ever set aside without them. Metadata
that all messages of a large operation share can be next to its folder, as ``.<operation>.meta``; a message's own metadata take
precedence.

Messages are no dot files, so that no message can pass for the metadata of another.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from spooltop.model import ASIDE, Box, Frozen, Json, JsonObject, json_object

from .atomic import discard, write_new
from .dirs import SpoolDirs
from .files import Files, read_small
from .names import MAX_NAME, encode_value, parse

_META_CAP = 64 * 1024


class Entry(Frozen):
    """Message that was set aside."""

    box: Box
    operation: str
    name: str


def meta_name(name: str) -> str:
    """Name of the metadata file of the message ``name``, or of the folder of that name, in the same directory."""
    plain = f".{name}.meta"
    if len(plain) <= MAX_NAME and (plain.isascii() or len(os.fsencode(plain)) <= MAX_NAME):
        return plain
    from hashlib import sha256  # loads OpenSSL: only for the longest names

    return f".{sha256(os.fsencode(name)).hexdigest()}.meta"


def set_aside(
    dirs: SpoolDirs,
    box: Box,
    operation: str,
    name: str,
    dir_fd: int,
    meta: JsonObject,
    *,
    inode: int | None = None,
    durable: bool = False,
) -> None:
    """Moves ``name`` out of the directory ``dir_fd`` to the side, its metadata first.

    ``meta`` has at least ``origin`` (the box it stood in), ``reason``, ``at`` (epoch seconds) and ``who``; ``name`` is added.
    ``FileNotFoundError``: it was gone, the race lost; ``FileExistsError``: this operation already holds one of that name. With
    ``durable`` the metadata are synced before the move; the two directories are left to the caller, once a batch.
    """
    files = dirs.files
    target = dirs.own_dir(box.value, operation)
    meta_file = meta_name(name)
    write_new(files, target, meta_file, json.dumps({**meta, "name": name}).encode() + b"\n", dirs.owner_model, durable=durable)
    try:
        files.move(name, dir_fd, name, target, inode=inode)
    except OSError:
        discard(files, meta_file, target)  # metadata without a message are never shown
        raise


def reject(
    dirs: SpoolDirs,
    name: str,
    inode: int,
    reason: str,
    *,
    operation: str,
    at: float,
    who: str,
    attempt: int | None,
    durable: bool,
    ended: str | None = None,
) -> None:
    """Sets a claim aside in ``rejected``. ``ended``: how its last attempt ended. ``FileNotFoundError`` if it is gone."""
    meta: dict[str, Json] = {"origin": "cur", "reason": reason, "at": at, "who": who, "attempt": attempt}
    if ended is not None:
        meta["ended"] = ended
    if durable and not dirs.files.ordered(dirs.box(Box.CUR)):
        # The claim first: where directories do not wait for each other (btrfs) a power cut would bring the message back to new,
        # beside the one that was set aside.
        dirs.files.sync_dir(dirs.box(Box.NEW))
    set_aside(dirs, Box.REJECTED, operation, name, dirs.box(Box.CUR), meta, inode=inode, durable=durable)
    if durable:
        dirs.files.sync_dir(dirs.own_dir(Box.REJECTED.value, operation))
        dirs.files.sync_dir(dirs.box(Box.CUR))


def remove_meta(dirs: SpoolDirs, entry: Entry) -> None:
    """Takes away the metadata of a message that went back or was deleted. None there is no error."""
    with suppress(FileNotFoundError), _looking(dirs, entry.box, entry.operation) as target:
        dirs.files.unlink(meta_name(entry.name), target)


def read_meta(dirs: SpoolDirs, entry: Entry) -> dict[str, Json]:
    """Reads the metadata of a message that was set aside: its own or, if it has none, the metadata shared by its folder; empty if
    they cannot be read. Untrusted, like everything in a spool. Raises ``OSError`` only if a descriptor cannot be closed."""
    try:
        with _looking(dirs, entry.box, entry.operation) as target:
            own = read_metadata(dirs.files, entry.name, target)
    except OSError:
        return {}
    return read_shared(dirs, entry.box, entry.operation) if own is None else own


def read_shared(dirs: SpoolDirs, box: Box, operation: str) -> dict[str, Json]:
    """Reads the metadata shared by all messages of a folder that have none of their own; empty if they cannot be read."""
    try:
        above = dirs.private_dir(box.value)
    except OSError:
        return {}
    return {} if above is None else read_metadata(dirs.files, operation, above) or {}


def read_metadata(files: Files, name: str, dir_fd: int) -> dict[str, Json] | None:
    """Reads the metadata of ``name`` in ``dir_fd``: None if there are none, empty if they cannot be read."""
    try:
        return json_object(read_small(meta_name(name), dir_fd, files=files, limit=_META_CAP).data)
    except FileNotFoundError:
        return None
    except OSError:
        return {}


def folders(dirs: SpoolDirs, box: Box, denied: list[str] | None = None) -> Iterator[tuple[str, list[str]]]:
    """Yields each operation with all names in its directory of ``box``, those of metadata too, in no order. ``denied`` receives
    the operations whose directory may not be read."""
    above = dirs.private_dir(box.value)
    if above is None:
        return
    for operation in dirs.files.list(above):
        if operation.startswith("."):
            continue
        try:
            with _looking(dirs, box, operation) as target:
                names = dirs.files.list(target)
        except (FileNotFoundError, NotADirectoryError):
            continue  # emptied meanwhile, or not one of ours
        except PermissionError:
            if denied is not None:
                denied.append(operation)
            continue
        yield operation, names


def entries(dirs: SpoolDirs, box: Box) -> Iterator[Entry]:
    """Yields all messages set aside in ``box``, in no order."""
    for operation, names in folders(dirs, box):
        for name in names:
            if not name.startswith("."):
                yield Entry(box, operation, name)


@contextmanager
def _looking(dirs: SpoolDirs, box: Box, operation: str) -> Iterator[int]:
    # Not by folder(): there may be more operations than descriptors.
    above = dirs.private_dir(box.value)
    if above is None or "/" in operation:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), box.value)
    with dirs.files.closing(dirs.files.open_dir(operation, above)) as fd:
        yield fd


def find(dirs: SpoolDirs, id: str) -> tuple[Box, str] | None:
    """Returns the box and the name of the message with this id, None if it is in no box: a listing of each. A file
    in ``tmp`` is not delivered and does not count."""
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
