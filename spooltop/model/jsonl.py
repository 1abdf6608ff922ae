"""Lines of logs: one JSON object each. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from .words import Json

__all__ = ["spelled_line"]


def spelled_line(head: Mapping[str, Json], **lists: Iterable[str]) -> bytes:
    r"""``head``, which is not empty, and ``lists`` of what is JSON already. A batch has a thousand items of one shape: to spell
    them out takes a third of the time.

    >>> spelled_line({"schema": 1}, ids=['"a"', '"b"'], results=[])
    b'{"schema":1,"ids":["a","b"],"results":[]}\n'
    """
    spelled = "".join(f',"{name}":[{",".join(items)}]' for name, items in lists.items())
    return f"{json.dumps(head, separators=(',', ':'))[:-1]}{spelled}}}\n".encode()
