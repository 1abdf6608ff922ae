"""Targets that the words of a user name, for front ends that have not opened them yet: paths, globs, URLs, and directories that
hold several spools."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Mapping, Sequence

from spooltop.model import Box, Environ, Frozen, OpenAs, SpooltopError, Target, Unreadable, has_scheme

from .backends import registry
from .run_each import run_each
from .settings import Settings, load

_PATIENCE = 1.0
"""Seconds within which a path answers. One that does not is a target: whoever looks at it says that it does not answer."""
_ASKED = 100
"""Maximum number of directories in one that are asked for another kind of queue: each is looked into."""


def identify_target(spec: str, *, as_kind: str = "", environ: Environ | None = None) -> Target:
    """Identifies what ``spec``, a path or a URL, names, and changes nothing. Raises as ``control.open_control``."""
    return _identify(spec, as_kind, load(os.environ if environ is None else environ))


def _identify(spec: str, as_kind: str, found: Settings) -> Target:
    return registry.identify(spec, OpenAs(as_kind or found.kind_of(spec), environ=found.words))[1]


class _Seen(Frozen):
    """A path: whether it can be opened, as far as this user can know, its real path, and the spools in it."""

    opens: bool
    real: str
    inside: Sequence[str] = ()


def find_targets(words: Iterable[str], as_kind: str = "", *, strict: bool = False) -> list[str]:
    """Returns the targets that ``words`` name, each once, in their order.

    A directory that is no target itself stands for the spools and queues directly in it. A glob stands for all that it matches
    and that can be opened, or that this user may not look into. Every other word is a target, so that whoever opens it hears what
    is wrong with it; so is a glob that matches nothing, and a URL of which a server does not tell what it stands for. With
    ``strict`` that is raised as ``SpooltopError``. Creates nothing.
    """
    names = [name for word in words for name in (_expanded(word, strict) if has_scheme(word) else (word,))]
    if all(map(has_scheme, names)):
        return list(dict.fromkeys(names))  # what finds directories takes as long to load as a server takes to look at
    from .backends.directory.scan import is_spool_at

    settings = load(os.environ)

    def look(path: str) -> _Seen:
        if "://" in path:
            return _Seen(True, path)
        real = os.path.realpath(path)
        if is_spool_at(path):
            return _Seen(True, real)  # by a tenth of what it takes to identify it
        try:
            _identify(path, as_kind, settings)
        except Unreadable:
            return _Seen(True, real)
        except SpooltopError:
            return _Seen(False, real, _queues_in(path, settings))
        return _Seen(True, real)

    matched: list[tuple[str, bool]] = []
    expanded = [os.path.expanduser(name) for name in names]
    for name, found in zip(expanded, run_each(expanded, _matches, _PATIENCE), strict=True):
        matched += [(path, True) for path in found or ()] or [(name, False)]
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


def _queues_in(path: str, settings: Settings) -> Sequence[str]:
    """Returns the names of the spools and other queues directly in the directory ``path``; links are not followed."""
    from .backends.directory.detect import spool_of_box
    from .backends.directory.scan import is_spool_at

    if spool_of_box(os.path.abspath(path)) is not None:
        return ()
    try:
        with os.scandir(path) as entries:
            names = sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    except OSError:
        return ()
    spools = {name for name in names if is_spool_at(os.path.join(path, name), follow=False)}
    others = [name for name in names if name not in spools and not name.startswith(".")][:_ASKED]
    queues = spools.union(
        name for name in others
        if settings.kind_of(place := os.path.join(path, name)) or registry.is_queue(place, environ=settings.words)
    )  # fmt: skip
    return [name for name in names if name in queues]


def _expanded(url: str, strict: bool) -> tuple[str, ...]:
    try:
        return registry.expand(url, load(os.environ).words)  # the files may have a password
    except SpooltopError:
        if strict:
            raise
        return (url,)


def is_spool_at(path: str) -> bool:
    """True if ``path`` looks like a spool: a tenth of the work of ``identify_target``, which may know better."""
    if has_scheme(path):
        return False
    from spooltop.backends.directory.scan import is_spool_at

    return is_spool_at(path)


def count_boxes(path: str) -> Mapping[Box, int | None]:
    """Counts the names in the boxes of a directory, before it is opened; empty for what is no directory."""
    if has_scheme(path):
        return {}
    from spooltop.backends.directory.scan import count_boxes

    return count_boxes(path)
