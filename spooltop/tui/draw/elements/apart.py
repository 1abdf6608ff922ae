"""Cuts the names of a list so that the part in which they differ is seen. Pure: names are ``safe`` already."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from .spans import clip, clip_left, text_width


class Ends(NamedTuple):
    """The beginning and the end that all names of a list share, each up to a sign between words: ``/srv/`` and ``-web.json``.
    ``whole``: the names in full are shared, because there is only one."""

    head: str = ""
    tail: str = ""
    whole: bool = False

    def narrowed(self, names: Collection[str]) -> Ends:
        """The ends that these names share, too. They never grow, so that a list that is scrolled does not change to and fro."""
        if self.whole:
            return common_ends([self.head, *names] if self.head else names)
        head = _prefix([self.head, *names])
        tail = _prefix([self.tail[::-1], *(name[len(head) :][::-1] for name in names)])[::-1]
        return _between_words(head, tail)


ALONE = Ends(whole=True)
"""The ends of no names at all."""


def common_ends(names: Iterable[str]) -> Ends:
    """The longest beginning and end that all ``names`` share; words are not divided.

    >>> common_ends(["job-0117-web.json", "job-0217-web.json"])
    Ends(head='job-', tail='-web.json', whole=False)
    >>> common_ends(["/srv/a/spool", "/srv/b/spool", "/srv/c"])
    Ends(head='/srv/', tail='', whole=False)
    """
    distinct = set(names)
    if len(distinct) < 2:
        return Ends(head=distinct.pop(), whole=True) if distinct else ALONE
    head = _prefix(distinct)
    return _between_words(head, _prefix(name[len(head) :][::-1] for name in distinct)[::-1])


def _prefix(texts: Iterable[str]) -> str:
    """The beginning that all of ``texts`` share: that of the first and the last in their order."""
    every = list(texts)
    first, last = min(every), max(every)
    return next((first[:at] for at, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), first)


def _between_words(head: str, tail: str) -> Ends:
    """The ends without the part of a word that differs."""
    start = max((at for at, char in enumerate(head, start=1) if not char.isalnum()), default=0)
    stop = min((at for at, char in enumerate(tail) if not char.isalnum()), default=len(tail))
    return Ends(head[:start], tail[stop:])


def cut_apart(name: str, width: int, ends: Ends) -> str:
    """At most ``width`` cells of a name: first the shared beginning is left out, then as much of the shared end as necessary, and
    only then the beginning of what differs.

    >>> ends = common_ends(["job-0117-web.json", "job-0217-web.json"])
    >>> [cut_apart("job-0117-web.json", width, ends) for width in (17, 14, 9, 5)]
    ['job-0117-web.json', '…0117-web.json', '…0117-we…', '0117…']
    """
    if text_width(name) <= width:
        return name
    if ends.whole or not (name.startswith(ends.head) and name[len(ends.head) :].endswith(ends.tail)):
        return clip_left(name, width)
    own = name[len(ends.head) : len(name) - len(ends.tail)]
    before = "…" if ends.head else ""
    if text_width(before + own + ends.tail) <= width:
        return before + own + ends.tail
    if not ends.tail:
        return clip_left(own, width)
    room = width - text_width(before + own)
    if room >= 1:
        return before + own + clip(ends.tail, room)
    return clip_left(own, max(1, width - 1)) + "…" if width > 2 else clip_left(own, width)
