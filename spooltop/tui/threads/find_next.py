"""Finds the next row of a list that matches the last filter."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from spooltop.model.protocols import Listing, ListQuery

from .messages import ListRequest, Search


def match(list_anew: Callable[[ListQuery], Listing], listing: Listing, request: ListRequest, search: Search) -> int | None:
    """The place of the match in ``listing``; None where there is none in that direction. Both lists have the same order, so a
    binary search finds it."""
    matches = list_anew(replace(listing.query, filter=search.text))
    found_at = None if request.anchor is None else listing.find(request.anchor)
    here = request.anchor_index if found_at is None else found_at

    def place(at: int) -> int | None:
        return listing.find(matches.window(at, at + 1)[0].key)

    low, high = 0, len(matches)  # the first one after (or at, backwards) the anchor
    while low < high:
        middle = (low + high) // 2
        found = place(middle)
        if found is not None and (found <= here if search.step > 0 else found < here):
            low = middle + 1
        else:
            high = middle
    at = low if search.step > 0 else low - 1
    return place(at) if 0 <= at < len(matches) else None
