"""Several streams and groups behind one URL."""

from __future__ import annotations

from typing import Any

import pytest

from spooltop import open_queue
from spooltop.errors import NotASpool, Unavailable, UsageError
from spooltop.targets import conceal, find_targets, identify_target
from tests.cli.streams import spooltop

_SECRET = "s3cr3t-pw"


@pytest.fixture
def base(client: Any, socket: str) -> str:
    """The URL of a server with three groups of two streams ``jobs:…``, without the name of a stream."""
    for stream, group in (("jobs:a", "work"), ("jobs:a", "audit"), ("jobs:b", "work"), ("other", "work")):
        client.xgroup_create(stream, group, "0", mkstream=True)
    client.xadd("jobs:a", {"data": "x"})
    client.xadd("jobs:nobody", {"data": "x"})
    client.xadd("{jobs:a}:spooltop:trash:work", {"data": "x"})
    client.set("jobs:text", "no stream")
    return f"unix://{socket}#"


def test_a_pattern_stands_for_all_groups_of_all_streams(base: str) -> None:
    def found(name: str) -> list[str]:
        return [one.removeprefix(base) for one in find_targets([base + name])]

    assert found("jobs:*") == ["jobs:a/audit", "jobs:a/work", "jobs:b/work"]
    assert found("jobs:?/work") == ["jobs:a/work", "jobs:b/work"] == found("jobs:[ab]/work")
    assert found("jobs:a") == ["jobs:a/audit", "jobs:a/work"]
    assert found("oth*") == found("other") == found("other/work") == ["other/work"]


def test_a_star_in_a_name_is_written_otherwise(client: Any, base: str) -> None:
    client.xgroup_create("jobs:*", "stars", "0", mkstream=True)
    assert find_targets([f"{base}jobs:%2A"]) == [f"{base}jobs:%2A/stars"]
    assert f"{base}jobs:%2A/stars" in find_targets([f"{base}jobs:*"])
    assert identify_target(f"{base}jobs:%2A").display_name == f"{base}jobs:%2A/stars"


def test_what_cannot_be_expanded_is_a_target_that_says_why(base: str) -> None:
    away = "unix:///nowhere/s#jobs*"
    for name, error, words in (
        (f"{base}none:*", NotASpool, "no stream of such a name has a group"),
        (f"{base}jobs:*/none", NotASpool, "no stream of such a name has such a group"),
        (f"{base}jobs:nobody", NotASpool, "the stream has no consumer group"),
        (away, Unavailable, "no answer from the server"),
    ):
        assert find_targets([name]) == [name]
        with pytest.raises(error, match=words):
            find_targets([name], strict=True)


@pytest.mark.parametrize(
    ("limit", "value", "words"),
    [("_PATIENCE", -1.0, "too many keys to search for a pattern"), ("_GROUPS_AT_MOST", 2, "stands for 3 groups")],
)
def test_too_many_keys_or_groups_are_refused(
    base: str, monkeypatch: pytest.MonkeyPatch, limit: str, value: float, words: str
) -> None:
    monkeypatch.setattr(f"spooltop.backends.redis.streams.server.find.{limit}", value)
    with pytest.raises(NotASpool, match=words):
        find_targets([f"{base}jobs:*"], strict=True)


def test_who_may_not_search_is_told(client: Any, base: str, socket: str) -> None:
    client.execute_command("ACL", "SETUSER", "eyes", "on", ">pw", "resetkeys", "~jobs:b", "-@all", "+xinfo", "+scan", "+type")
    url = f"unix://eyes:pw@{socket}#jobs:*"
    assert find_targets([conceal(url)]) == [f"{base}jobs:b/work"]
    client.execute_command("ACL", "SETUSER", "eyes", "-scan")
    with pytest.raises(Unavailable):
        find_targets([conceal(url)], strict=True)


def test_a_secret_goes_with_each_target_and_is_not_shown(client: Any, base: str, socket: str) -> None:
    client.execute_command("ACL", "SETUSER", "eyes", "on", f">{_SECRET}", "~*", "+@all")
    shown = conceal(f"unix://eyes:{_SECRET}@{socket}#jobs:*")
    found = find_targets([shown])
    assert len(found) == 3 and _SECRET not in f"{shown}{found}"
    assert _SECRET in identify_target(found[0]).where.url  # type: ignore[attr-defined]


def test_a_queue_is_one(base: str) -> None:
    for create in (False, True):
        with pytest.raises(UsageError, match="stands for several streams"):
            open_queue(f"{base}jobs:*/new", create=create)


@pytest.mark.parametrize(
    ("command", "code", "shown"),
    [
        (["status"], 0, ["jobs:a/work", "jobs:b/work", "jobs:a/audit"]),
        (["status", "--json"], 0, ["jobs:a/work", "jobs:b/work", "jobs:a/audit"]),
        (["check"], 0, ["jobs:a/work", "jobs:b/work", "jobs:a/audit"]),
        (["metrics"], 0, ["jobs:a/work", "jobs:b/work", "jobs:a/audit"]),
        (["ls"], 5, ["the name stands for several groups; name one of them: ", "jobs:a/audit, "]),
        (["init"], 2, ["the name stands for several streams"]),
    ],
)
def test_commands_take_a_pattern(
    client: Any, base: str, socket: str, command: list[str], code: int, shown: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPOOLTOP_DEBUG", "1")
    client.execute_command("ACL", "SETUSER", "eyes", "on", f">{_SECRET}", "~*", "&*", "+@all")
    done = spooltop(command[0], f"unix://eyes:{_SECRET}@{socket}#jobs:*", *command[1:])
    out = done.out + done.err
    assert done.code == code and _SECRET not in out, out
    assert all(one in out for one in shown), out


def test_a_pattern_that_matches_nothing_is_one_sentence(base: str) -> None:
    for command in ("status", "check", "metrics", "events"):
        done = spooltop(command, f"{base}none*")
        assert (done.out + done.err).count("no stream of such a name has a group") == 1, done
