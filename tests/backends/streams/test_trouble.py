"""What is wrong with a server is said in the same words by a reader, an operator and a queue, each with what to do."""

from __future__ import annotations

import socket
import ssl

import pytest
from redis import exceptions

from spooltop.backends.redis.queue.failures import failure
from spooltop.backends.redis.trouble import Kind, error_of, trouble_of_connection, trouble_of_reply
from spooltop.errors import NotASpool, Refused, SpoolFull, SpooltopError, Unavailable, Unreadable

REPLIES = {
    "NOAUTH Authentication required.": (Kind.DENIED, "the server wants a password"),
    "WRONGPASS invalid username-password pair or user is disabled.": (Kind.DENIED, "the server refuses this user or password"),
    "ERR invalid password": (Kind.DENIED, "the server refuses this user or password"),
    "ERR AUTH <password> called without any password configured for the default user. Are you sure?": (
        Kind.DENIED, "the server has no password for its default user",
    ),
    "NOPERM this user has no permissions to run the 'xack' command": (Kind.DENIED, "this user of the server may not run 'xack'"),
    "NOPERM User bob has no permissions to run the 'client|list' command": (
        Kind.DENIED, "this user of the server may not run 'client|list'",
    ),
    "NOPERM this user has no permissions to access one of the keys used as arguments": (
        Kind.DENIED, "this user of the server may not use this key",
    ),
    "ERR ACL failure in script: User v has no permissions to run the 'xack' command script: on @user_script:1.": (
        Kind.DENIED, "this user of the server may not run 'xack'",
    ),
    "ERR The user executing the script can't run this command or subcommand script: 5921, on @user_script:1.": (
        Kind.DENIED, "this user of the server may not run a command that a script of spooltop needs",
    ),
    "LOADING Redis is loading the dataset in memory": (Kind.LATER, "the server is loading its data"),
    "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.": (
        Kind.LATER, "the replica has lost its master",
    ),
    "READONLY You can't write against a read only replica.": (Kind.LATER, "the server is a replica, and takes no changes"),
    "OOM command not allowed when used memory > 'maxmemory'.": (Kind.FULL, "the memory of the server is full"),
    "MISCONF Redis is configured to save RDB snapshots, but …": (
        Kind.LATER, "the server cannot save to its disk, and takes no changes until it can",
    ),
    "BUSY Redis is busy running a script.": (Kind.LATER, "the server is busy with a script"),
    "ERR max number of clients reached": (Kind.LATER, "the server has no connection left"),
    "MOVED 3999 10.0.0.7:6381": (Kind.OTHER, "this stream is on another node of the cluster: 10.0.0.7:6381"),
    "ERR DB index is out of range": (Kind.OTHER, "the server has no such database"),
    "CROSSSLOT Keys in request don't hash to the same slot": (
        Kind.OTHER, "in a cluster no key can lie beside a stream of this name",
    ),
    "NOGROUP No such key 'jobs'": (Kind.NO_STREAM, "NOGROUP No such key 'jobs'"),
    "ERR something\x1b[2J": (Kind.OTHER, "the server answers with an error: ERR something\\x1b[2J"),
}  # fmt: skip


@pytest.mark.parametrize("text", REPLIES)
def test_an_error_of_the_server_is_said_in_words(text: str) -> None:
    found = trouble_of_reply(text)
    assert (found.kind, found.what) == REPLIES[text] and found.advice and "\n" not in found.line


def _certificate_error(code: int) -> ssl.SSLCertVerificationError:
    error = ssl.SSLCertVerificationError(1, "certificate verify failed")
    error.verify_code, error.verify_message = code, "of some sort"
    return error


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ConnectionRefusedError(111, "Connection refused"), "no answer from the server: Connection refused; start it"),
        (TimeoutError("timed out"), "no answer from the server in time"),
        (socket.gaierror(-2, "Name or service not known"), "the name of the server's host is not known"),
        (_certificate_error(62), "certificate is for another host"),
        (_certificate_error(19), "of a CA that is not known here; name the file of its CA in SSL_CERT_FILE"),
        (_certificate_error(10), "certificate has expired"),
        (_certificate_error(9), "certificate is not valid yet; set the clock"),
        (_certificate_error(7), "does not verify: of some sort"),
    ],
)
def test_a_connection_that_fails_is_said_in_words(error: OSError, words: str) -> None:
    assert words in trouble_of_connection(error).line


@pytest.mark.parametrize(
    ("code", "by_client", "kind"),
    [
        ("NOPERM", exceptions.NoPermissionError("this user has no permissions to run the 'xadd' command"), Refused),
        ("NOAUTH", exceptions.AuthenticationError("Authentication required."), Refused),
        ("LOADING", exceptions.BusyLoadingError("Redis is loading the dataset in memory"), Unavailable),
        ("READONLY", exceptions.ReadOnlyError("You can't write against a read only replica."), Unavailable),
        ("OOM", exceptions.OutOfMemoryError("command not allowed when used memory > 'maxmemory'."), SpoolFull),
        ("ERR", exceptions.ConnectionError("max number of clients reached"), Unavailable),
    ],
)
def test_an_operator_and_a_queue_say_the_same(code: str, by_client: Exception, kind: type[SpooltopError]) -> None:
    by_operator = error_of(trouble_of_reply(f"{code} {by_client}"), "redis://here#jobs", "put")
    by_queue = failure(by_client, "redis://here#jobs", "put")
    assert type(by_operator) is type(by_queue) is kind and str(by_operator) == str(by_queue)
    assert not getattr(by_queue, "answer_lost", False)


def test_no_error_of_a_put_has_the_message_in_it() -> None:
    text = "Command # 1 (XADD a * data hush (a) of pipeline caused error: x\n) of pipeline caused error: MISCONF Redis is full"
    found = failure(exceptions.ResponseError(text), "redis://here#jobs", "put")
    assert isinstance(found, Unavailable) and "hush" not in str(found) and "cannot save to its disk" in str(found)


def test_no_stream_and_what_nobody_knows() -> None:
    assert type(error_of(trouble_of_reply("NOGROUP No such"), "a", "put")) is Unreadable
    assert type(failure(exceptions.ResponseError("NOGROUP No such"), "a", "put")) is NotASpool
    lost = failure(exceptions.ConnectionError("Connection closed by server."), "a", "put")
    assert isinstance(lost, Unavailable) and lost.answer_lost
