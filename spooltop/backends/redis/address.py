"""Address of a stream: ``redis://HOST:6379/0#STREAM/GROUP``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import SplitResult, parse_qs, quote, unquote, urlsplit

from msgspec import Struct
from redis import connection

from spooltop.errors import UsageError
from spooltop.model.vocabulary import escape

from .client import KINDS, OPTIONS, Endpoint

# URLs of Redis servers.

_OPTIONS = frozenset({"db", "username", "password"})
_TLS_OPTIONS = frozenset({"ssl_ca_certs", "ssl_ca_path", "ssl_cert_reqs", "ssl_certfile", "ssl_check_hostname", "ssl_keyfile"})
_FORM = "STREAM/GROUP"
_ALIASES = {"valkey": "redis", "valkeys": "rediss"}


def as_redis(url: str) -> str:
    """Returns the URL with the scheme that all programs know.

    >>> as_redis("valkeys://host#a"), as_redis("unix:///s#a")
    ('rediss://host#a', 'unix:///s#a')
    """
    scheme, mark, rest = url.partition("://")
    return _ALIASES.get(scheme, scheme) + mark + rest


def parse_url(url: str, *, queue: str) -> SplitResult:
    """Parses a URL whose fragment names a ``queue``, as the advice of the error writes it. Raises ``UsageError`` for anything
    else than ``redis://``, ``rediss://``, ``valkey://``, ``valkeys://`` and ``unix://``, and for an option that is not known."""
    # The complaint goes without the URL, which may have a password in it.
    bad = UsageError("not the URL of a Redis server", advice=f"write redis://HOST:6379/0#{queue}, or unix:///SOCKET#{queue}")
    try:
        parts = urlsplit(as_redis(url))
        port = parts.port
    except ValueError:
        raise bad from None
    if parts.scheme not in ("redis", "rediss", "unix") or port == 0 or not _db(parts).isdecimal():
        raise bad
    if not (parts.path if parts.scheme == "unix" else parts.hostname):
        raise bad
    known = _OPTIONS | _TLS_OPTIONS if parts.scheme == "rediss" else _OPTIONS
    for name in parse_qs(parts.query, keep_blank_values=True):
        if name not in known:
            others = ", ".join(sorted(_OPTIONS | _TLS_OPTIONS))
            advice = "write rediss:// for TLS" if name in _TLS_OPTIONS else f"there are {others}"
            raise UsageError(f"no option {escape(name)} in the URL of a server", path=without_secrets(parts), advice=advice)
    return parts


class Login(NamedTuple):
    """User and password for a server whose URL has none: an argument is seen by everybody in the list of processes."""

    user: str = ""
    password: str = ""

    @classmethod
    def from_settings(cls, words: Mapping[str, str]) -> Login:
        """Reads ``redis_user`` and ``redis_password`` from all settings, as the environment writes them."""
        return cls(words.get("SPOOLTOP_REDIS_USER", ""), words.get("SPOOLTOP_REDIS_PASSWORD", ""))

    def __repr__(self) -> str:
        return f"Login({self.user!r}, …)"


def endpoint(url: str, login: Login = Login()) -> Endpoint:  # noqa: B008  immutable
    """Returns where a client of ``url`` connects. Of ``login`` counts what the URL has not. Nothing is repeated by itself: a put
    that is sent twice makes two messages."""
    parser: Any = connection
    options = parser.parse_url(as_redis(url.partition("#")[0]))
    named = {name: word for name, word in (("username", login.user), ("password", login.password)) if word}
    kind = KINDS[options.get("connection_class", connection.Connection)]
    return {**named, **options, **OPTIONS, "db": int(_db(parse_url(url, queue=_FORM))), "connection_class": kind}


def _db(parts: SplitResult) -> str:
    return parse_qs(parts.query).get("db", ["0"])[-1] if parts.scheme == "unix" else parts.path.strip("/") or "0"


def without_secrets(parts: SplitResult) -> str:
    """Returns the URL of the server without user, password and options."""
    db = _db(parts)
    if parts.scheme == "unix":
        return f"unix://{parts.path}" + (f"?db={db}" if db != "0" else "")
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}" + (f"/{db}" if db != "0" else "")


class StreamAddress(Struct, frozen=True):
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
        return endpoint(self.url, login)


def _plain(text: str) -> str:
    return unquote(text, errors="surrogateescape")


def _quoted(name: str, also: str = "") -> str:
    return quote(name, safe=":{}()~@!$&'+,;=" + also, errors="surrogateescape")
