"""Addresses of streams: what they name, and that no secret is shown."""

from __future__ import annotations

import pytest

from spooltop.backends.redis.address import StreamAddress
from spooltop.backends.redis.backend import _maxlen
from spooltop.backends.redis.urls import Login
from spooltop.errors import UsageError


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
    assert StreamAddress.parse("redis://host#a").endpoint(Login("ann", "given")).password == "given"
    assert StreamAddress.parse("redis://:own@host#a").endpoint(Login("ann", "given")).password == "own"
    assert StreamAddress.parse("redis://host#a").endpoint(Login("ann", "given")).user == "ann"
    assert StreamAddress.parse("redis://bob@host#a").endpoint(Login("ann", "given")).user == "bob"
    assert "given" not in repr(Login("ann", "given"))


@pytest.mark.parametrize(("text", "number"), [("", 0), (" 100000 ", 100_000)])
def test_the_length_to_which_a_stream_is_trimmed_is_a_setting(text: str, number: int) -> None:
    assert _maxlen({"SPOOLTOP_STREAM_MAXLEN": text}) == number


@pytest.mark.parametrize("text", ["-1", "1e5", "1" * 19, "²"])
def test_a_length_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is not a whole number; write SPOOLTOP_STREAM_MAXLEN=100000"):
        _maxlen({"SPOOLTOP_STREAM_MAXLEN": text})
