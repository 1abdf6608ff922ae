"""Targets that the words of a user name, for front ends that have not opened them yet."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from functools import partial

from spooltop.model import Box, Environ, OpenAs, Target, has_scheme

from .backends import registry
from .errors import SpooltopError
from .settings import Settings, load


def identify_target(spec: str, *, as_kind: str = "", environ: Environ | None = None) -> Target:
    """Identifies what ``spec``, a path or a URL, names, and changes nothing. Raises as ``control.open_control``."""
    return _identify(spec, as_kind, load(os.environ if environ is None else environ))


def _identify(spec: str, as_kind: str, found: Settings) -> Target:
    return registry.identify(spec, OpenAs(as_kind or found.kind_of(spec), environ=found.words))[1]


def find_targets(words: Iterable[str], as_kind: str = "", *, strict: bool = False) -> list[str]:
    """Returns the targets that ``words`` (paths, globs, directories that hold several spools, URLs) name, each once. A URL of
    which a server does not tell what it stands for is a target itself, so that whoever opens it hears why; with ``strict`` that
    is raised as ``SpooltopError``."""
    names = [name for word in words for name in (_expanded(word, strict) if has_scheme(word) else (word,))]
    if all(map(has_scheme, names)):
        return list(dict.fromkeys(names))  # what finds directories takes as long to load as a server takes to look at
    from spooltop.backends.directory.detect import find_targets

    found = load(os.environ)

    def is_queue(path: str) -> bool:
        return bool(found.kind_of(path)) or registry.is_queue(path, environ=found.words)

    return find_targets(names, partial(_identify, as_kind=as_kind, found=found), is_queue)


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
