"""The view and the orders in which a user left the dashboard of one target."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from .protocols import Sort


class KeptView(Struct, frozen=True):
    """The choices that are kept. ``view`` is the one in front ("": none is kept), ``sorts`` the orders of lists by their boxes
    and "consumers". No filter is kept in force, because it would hide trouble from somebody who has forgotten it:
    ``last_filter`` is only what ``n`` goes on with."""

    view: str = ""
    sorts: Mapping[str, Sort] = field(default_factory=dict)
    last_filter: str = ""
