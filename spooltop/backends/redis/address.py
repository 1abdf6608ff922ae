"""Address of a stream: ``redis://HOST:6379/0#STREAM/GROUP``."""

from __future__ import annotations

import re
from urllib.parse import quote, unquote

from spooltop.errors import UsageError
from spooltop.records import dataclass

from .client import Endpoint
from .urls import Login, as_redis, endpoint, parse_url, without_secrets

__all__ = ["StreamAddress"]

_FORM = "STREAM/GROUP"


@dataclass(frozen=True, slots=True)
class StreamAddress:
    """Address of a stream on a server. ``url`` is that of the server, with its secrets; ``server`` is shown. ``group`` None: it
    names none. ``pattern``: the name has ``*``, ``?`` or ``[``, and stands for all streams that match it; ``%2A`` is a star in a
    name.

    >>> found = StreamAddress.parse("redis://me:secret@host/3#jobs:mail/workers")
    >>> found.shown, found.stream, found.group
    ('redis://host/3#jobs:mail/workers', 'jobs:mail', 'workers')
    """

    url: str
    server: str
    stream: str
    group: str | None
    pattern: bool = False

    @classmethod
    def parse(cls, spec: str) -> StreamAddress:
        """Reads an address as it was typed. The last slash begins the group; ``%2F`` is a slash in a name. Raises ``UsageError``,
        which shows no secret."""
        parts = parse_url(spec, queue=_FORM)
        stream, slash, group = parts.fragment.rpartition("/")
        if not slash:
            stream, group = group, ""
        if not stream or (slash and not group):
            shown = without_secrets(parts)
            raise UsageError("no stream is named", path=shown, advice=f"write {shown}#{_FORM}")
        pattern = re.search(r"[*?\[]", stream) is not None
        url = as_redis(spec.partition("#")[0])
        return cls(url, without_secrets(parts), _plain(stream), _plain(group) if slash else None, pattern)

    @property
    def shown(self) -> str:
        """The address without secrets; it opens the same stream again."""
        return f"{self.server}#{self.name}"

    @property
    def spec(self) -> str:
        """The address with its secrets: it is printed nowhere."""
        return f"{self.url}#{self.name}"

    @property
    def name(self) -> str:
        """The stream and the group, as an address writes them."""
        stream = _quoted(self.stream, "*?[]^") if self.pattern else _quoted(self.stream)
        return stream + ("" if self.group is None else f"/{_quoted(self.group)}")

    def endpoint(self, login: Login = Login()) -> Endpoint:  # noqa: B008  immutable
        """Returns where a client connects. Of ``login`` counts what the URL has not."""
        return endpoint(parse_url(self.url, queue=_FORM), login)


def _plain(text: str) -> str:
    return unquote(text, errors="surrogateescape")


def _quoted(name: str, also: str = "") -> str:
    return quote(name, safe=":{}()~@!$&'+,;=" + also, errors="surrogateescape")
