"""Addresses of streams: what they name, and that no secret is shown."""

from __future__ import annotations

import pytest

from spooltop.backends.redis.address import StreamAddress
from spooltop.backends.redis.backend import _maxlen
from spooltop.backends.redis.urls import Login
from spooltop.errors import UsageError
from tests.cli.streams import spooltop


@pytest.mark.parametrize(
    ("spec", "shown", "stream", "group"),
    [
        ("redis://host#jobs", "redis://host#jobs", "jobs", None),
        ("redis://host:6380/3#a:b/work", "redis://host:6380/3#a:b/work", "a:b", "work"),
        ("rediss://u:secret@host/0?ssl_ca_certs=/x#{t}:jobs/g", "rediss://host#{t}:jobs/g", "{t}:jobs", "g"),
        ("unix:///run/redis.sock?db=2&password=secret#jobs/g", "unix:///run/redis.sock?db=2#jobs/g", "jobs", "g"),
        ("redis://host#a/b/c", "redis://host#a%2Fb/c", "a/b", "c"),
        ("redis://host#a%2Fb%23/c%25", "redis://host#a%2Fb%23/c%25", "a/b#", "c%"),
    ],
)
def test_an_address_names_a_stream_and_shows_no_secret(spec: str, shown: str, stream: str, group: str | None) -> None:
    found = StreamAddress.parse(spec)
    assert (found.shown, found.stream, found.group) == (shown, stream, group)
    assert StreamAddress.parse(found.shown).shown == shown and found.url == spec.partition("#")[0]


@pytest.mark.parametrize(
    "spec", ["redis://:secret@host", "redis://:secret@host#", "redis://:secret@host#jobs/", "redis://:secret@#a"]
)
def test_what_names_no_stream_is_refused_without_its_secret(spec: str) -> None:
    with pytest.raises(UsageError) as refused:
        StreamAddress.parse(spec)
    assert "secret" not in str(refused.value) and "STREAM/GROUP" in str(refused.value)


def test_the_password_of_the_environment_is_used_where_the_address_has_none() -> None:
    login = Login("ann", "given")
    for url, user, password in (("redis://host#a", "ann", "given"), ("redis://:own@host#a", "ann", "own")):
        endpoint = StreamAddress.parse(url).endpoint(login)
        assert (endpoint.user, endpoint.password) == (user, password)
    assert StreamAddress.parse("redis://bob@host#a").endpoint(login).user == "bob" and "given" not in repr(login)


def test_the_length_to_which_a_stream_is_trimmed_is_a_setting() -> None:
    assert [_maxlen({"SPOOLTOP_STREAM_MAXLEN": text}) for text in ("", " 100000 ")] == [0, 100_000]
    for text in ("-1", "1e5", "1" * 19, "²"):
        with pytest.raises(UsageError, match="is not a whole number; write SPOOLTOP_STREAM_MAXLEN=100000"):
            _maxlen({"SPOOLTOP_STREAM_MAXLEN": text})


def test_valkey_is_another_name_of_redis() -> None:
    found = StreamAddress.parse("valkeys://:secret@host:6380/3?ssl_certfile=/x#jobs/work")
    assert (found.shown, found.url) == ("rediss://host:6380/3#jobs/work", "rediss://:secret@host:6380/3?ssl_certfile=/x")
    for command in ("status", "put", "init"):
        done = spooltop(command, "valkey://127.0.0.1:1#a/b")
        assert done.code == 5 and "://127.0.0.1:1#a/b: " in done.err and "no answer from the server" in done.err


@pytest.mark.parametrize("command", ["status", "put", "init"])
def test_an_option_that_is_not_known_is_named(command: str) -> None:
    done = spooltop(command, "redis://127.0.0.1:1/0?foo=1&password=secret#a/b")
    assert done.code == 2 and done.err.count("\n") == 2 and "no option foo in the URL of a server; there are db, " in done.err
    done = spooltop(command, "redis://127.0.0.1:1?ssl_certfile=/x#a/b")
    assert done.code == 2 and done.err.endswith("no option ssl_certfile in the URL of a server; write rediss:// for TLS\n")
    assert "no option foo in the URL" in spooltop(command, "redis://127.0.0.1:1?foo=#a/b").err


@pytest.mark.parametrize(
    "word", ["redis//:secret@h/0#a/b", "redis:/:secret@h", "redis:://u:secret@h#a", "rediss:secret@h", "valkey//u:secret@h"]
)
@pytest.mark.parametrize("command", ["status", "put", "init", "requeue", "work", None])
def test_a_misspelt_url_is_not_echoed(word: str, command: str | None) -> None:
    done = spooltop(*([command] if command else []), word)
    assert done.code == 2 and "secret" not in done.err and "write redis://HOST:6379/0#STREAM/GROUP" in done.err
