"""Identifies a path: a spool, a mail folder, cursors, tickets. Any other path gets an error with the hint that fits.

Nothing is created or changed here, and only the first names of each directory are read. The hints are loaded only for a path
that needs one.
"""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Literal, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from spooltop.engine.mail import LOOKED_AT, MailSign, looks_like_mail
from spooltop.engine.tickets.file_queue import file_tickets
from spooltop.errors import NotASpool, SpooltopError, Unreadable
from spooltop.model.vocabulary import LIVE, Box
from spooltop.run_each import run_each

from ..access import quoted
from .hints import spool_of_box
from .locks.lock_files import is_lock_name
from .scan.boxes import boxes_in, first_names, is_spool_at, is_spool_like, open_path
from .world import OpenOptions

Kind = Literal["spool", "mail", "cursors", "tickets", "locks"]


class IdentifiedPath(Struct, frozen=True):
    """Identified path. ``path`` is as given, except that for a ``cursors.json`` it is the directory. ``read_only`` says in words
    why nothing may be changed; ``missing`` lists the boxes of a spool that do not exist."""

    kind: Kind
    path: str
    read_only: str | None = None
    missing: tuple[Box, ...] = ()
    cursor_files: tuple[str, ...] = ()
    """The cursor file that the path names, if it is one of several in its directory."""


def identify(path: str, as_spool: bool = False, *, otherwise: Kind | None = None) -> IdentifiedPath:
    """Identifies ``path``. ``as_spool`` treats a mail folder as a job spool. A directory that is nothing else becomes a target of
    the kind ``otherwise``.

    Raises ``NotASpool`` with the hint that fits, ``Unreadable`` where a component or a box gives no permission.
    """
    if not path:
        raise NotASpool("an empty path", advice="name the directory that holds tmp, new and cur")
    try:
        fd = open_path(path)
    except NotADirectoryError:
        if (target := _cursor_file(path)) is not None:
            return target
        from .hints import for_file

        raise for_file(path) from None
    except (OSError, ValueError) as error:
        from .hints import for_error

        raise for_error(path, error) from None
    try:
        return _identify(path, fd, as_spool, otherwise)
    except PermissionError:
        from .hints import for_denied

        raise for_denied(path, os.fstat(fd)) from None
    finally:
        os.close(fd)


def with_layout(path: str, options: OpenOptions) -> OpenOptions:
    """Fills in the layout of ``path``, and why it is read-only, where the layout was not given. A path that cannot be identified
    counts as a spool, because the first look says what is wrong with it."""
    if options.layout is not None:
        return options
    try:
        target = identify(path, options.as_spool)
    except SpooltopError:
        return replace(options, layout="spool")
    return replace(options, layout=target.kind, read_only=options.read_only or target.read_only)


def _identify(path: str, fd: int, as_spool: bool, otherwise: Kind | None) -> IdentifiedPath:
    modes = boxes_in(fd)
    for box, mode in modes.items():
        if stat.S_ISLNK(mode):
            advice = f"a box must be a directory itself: name the spool that {box} points into"
            raise NotASpool(f"its {box} is a symbolic link", path=path, advice=advice)
    if is_spool_like(modes):
        missing = tuple(box for box in LIVE if not stat.S_ISDIR(modes.get(box, 0)))
        if (sign := _looks_like_mail(path, fd)) is None or as_spool:
            return IdentifiedPath("spool", path, missing=missing)
        return IdentifiedPath("mail", path, read_only=_why_read_only(path, sign), missing=missing)
    names = first_names(".", fd)
    if _is_file(fd, "cursors.json") or (_is_dir(fd, "cursors") and _has_json(fd, "cursors")):
        return IdentifiedPath("cursors", path)
    if "seq" in names and all(name == "seq" or name.startswith(".") for name in names):
        return IdentifiedPath("tickets", path)  # a queue in which nobody waits
    if file_tickets(names) and _is_file(fd, "seq"):
        return IdentifiedPath("tickets", path)
    from .hints import for_directory, has_journal, spool_of_box

    if spool_of_box(whole := os.path.abspath(path)) is None:
        if os.path.basename(whole) == "cursors" and any(name.endswith(".json") for name in names):
            return IdentifiedPath("cursors", os.path.dirname(whole))
        if otherwise is not None and not (otherwise == "locks" and has_journal(path, fd)):
            return IdentifiedPath(otherwise, path)
        if _only_locks(names):
            return IdentifiedPath("locks", path)
    raise for_directory(path, fd, modes, names)


def _cursor_file(path: str) -> IdentifiedPath | None:
    """Returns the target for ``cursors.json`` or ``cursors/SOURCE.json``. It must be a regular file, because a cursor file is
    never read through a link."""
    above, name = os.path.split(os.path.abspath(path))
    try:
        if not stat.S_ISREG(os.lstat(path).st_mode):
            return None
    except OSError:
        return None
    if name == "cursors.json":
        return IdentifiedPath("cursors", os.path.dirname(path) or ".")
    if name.endswith(".json") and os.path.basename(above) == "cursors":
        return IdentifiedPath("cursors", os.path.dirname(above), cursor_files=(path,))
    return None


def _only_locks(names: list[str]) -> bool:
    """True if there are only lock files and the files that belong to them."""
    locks = {name for name in names if is_lock_name(name)}
    belongs = {name.removesuffix(".lck") for name in locks} | {f"{name}{end}" for name in locks for end in (".filelock", ".rw")}
    return bool(locks) and all(name in locks or name in belongs or name.startswith(".") for name in names)


def _looks_like_mail(path: str, fd: int) -> MailSign | None:
    """Returns the evidence that it is a mail folder; None without any. Raises ``Unreadable`` if none of the boxes can be
    listed."""
    seen = 0
    denied: list[str] = []

    def list_names(folder: str) -> list[str] | None:
        nonlocal seen
        try:
            found = first_names(folder, fd, LOOKED_AT)
        except PermissionError:
            denied.extend([folder] if folder in LIVE else [])
            return None
        except OSError:
            return None  # missing, a file, or the disk fails: the scan that follows says so, with the error
        seen += folder in LIVE
        return found

    sign = looks_like_mail(list_names, partial(_exists, fd))
    if denied and not seen:
        from .hints import for_denied

        raise for_denied(os.path.join(path, denied[0]), os.stat(denied[0], dir_fd=fd, follow_symlinks=False))
    return sign


def _why_read_only(path: str, sign: MailSign) -> str:
    return (
        f"this is {sign.sentence}, so nothing here is judged stale and nothing changes it; "
        f"if it is a job spool all the same: spooltop --as spool {quoted(path)}"
    )


def _exists(fd: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=fd, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _is_file(fd: int, name: str) -> bool:
    return _kind(fd, name) == stat.S_IFREG


def _is_dir(fd: int, name: str) -> bool:
    return _kind(fd, name) == stat.S_IFDIR


def _kind(fd: int, name: str) -> int:
    try:
        return stat.S_IFMT(os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return 0


def _has_json(fd: int, name: str) -> bool:
    try:
        return any(entry.endswith(".json") for entry in first_names(name, fd))
    except PermissionError:
        raise Unreadable(f"{name}/ gives no permission to list it") from None


# Finds the targets that the words of a user name: paths, globs, and directories that hold several spools.

_PATIENCE = 1.0
"""Seconds within which a path answers. One that does not is a target: whoever looks at it says that it does not answer."""

_ASKED = 100
"""Maximum number of directories in one that are asked for another kind of queue: each is looked into."""


class _Seen(NamedTuple):
    """A path: whether it can be opened, as far as this user can know, its real path, and the spools in it."""

    opens: bool
    real: str
    inside: tuple[str, ...] = ()


def find_targets(
    words: Iterable[str], identify: Callable[[str], object] = identify, is_queue: Callable[[str], bool] | None = None
) -> list[str]:
    """Returns the targets that ``words`` name, each once, in their order. ``identify`` raises ``SpooltopError`` for a path that
    is no target; ``is_queue`` says of a directory that is no spool whether it is a queue of another kind.

    A directory that is no target itself stands for the spools and queues directly in it. A glob stands for all that it matches
    and that can be opened, or that this user may not look into. Every other word is a target, so that whoever opens it hears what
    is wrong with it; so is a glob that matches nothing. A URL stays as it is. Creates nothing.
    """
    matched: list[tuple[str, bool]] = []
    expanded = [os.path.expanduser(word) for word in words]
    for word, found in zip(expanded, run_each(expanded, _matches, _PATIENCE), strict=True):
        matched += [(path, True) for path in found or ()] or [(word, False)]
    look = partial(_look, identify=identify, is_queue=is_queue)
    seen = run_each([path for path, _ in matched], look, _PATIENCE)
    targets: dict[str, str] = {}
    for (path, by_glob), one in zip(matched, seen, strict=True):
        one = one or _Seen(True, os.path.abspath(path))
        if one.inside:
            for name in one.inside:
                targets.setdefault(os.path.join(one.real, name), os.path.join(path, name))
        elif one.opens or not by_glob:
            targets.setdefault(one.real, path)
    return list(targets.values())


def _matches(word: str) -> Sequence[str]:
    """Returns the paths that match a glob; none for any other word."""
    if "://" in word or not glob.has_magic(word) or os.path.lexists(word):
        return ()
    return sorted(glob.glob(word))  # noqa: PTH207  words are text, and stay as they were typed


def _look(path: str, identify: Callable[[str], object], is_queue: Callable[[str], bool] | None) -> _Seen:
    if "://" in path:
        return _Seen(True, path)
    real = os.path.realpath(path)
    if is_spool_at(path):
        return _Seen(True, real)  # by a tenth of what it takes to identify it
    try:
        identify(path)
    except Unreadable:
        return _Seen(True, real)
    except SpooltopError:
        return _Seen(False, real, tuple(_queues_in(path, is_queue)))
    return _Seen(True, real)


def _queues_in(path: str, is_queue: Callable[[str], bool] | None) -> Sequence[str]:
    """Returns the names of the spools and other queues directly in the directory ``path``; links are not followed."""
    if spool_of_box(os.path.abspath(path)) is not None:
        return ()
    try:
        with os.scandir(path) as entries:
            names = sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    except OSError:
        return ()
    spools = {name for name in names if is_spool_at(os.path.join(path, name), follow=False)}
    others = [name for name in names if is_queue and name not in spools and not name.startswith(".")][:_ASKED]
    queues = {name for name in others if is_queue is not None and is_queue(os.path.join(path, name))}
    return [name for name in names if name in spools or name in queues]
