"""Addresses of streams beyond what is recorded of them in ``tests/behaviour``, and TLS: a certificate of a CA that is named is
trusted, and every other is refused in one line that says what to do."""

from __future__ import annotations

import os
import socket as sockets
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from redis import Redis

from spooltop.control import open_control
from spooltop.errors import UsageError
from spooltop.model.vocabulary import Box
from tests.cli.streams import ROOT, Done, spooltop
from tests.stream_servers import free_port, running


@pytest.mark.parametrize("text", ["-1", "1e5", "1" * 19, "²"])
def test_a_length_to_trim_to_that_is_no_number_is_named(text: str) -> None:
    with pytest.raises(UsageError, match="is not a whole number; write SPOOLTOP_STREAM_MAXLEN=100000"):
        open_control("redis://127.0.0.1:1#a/b", watch=False, settings={"SPOOLTOP_STREAM_MAXLEN": text})


def test_a_host_whose_name_is_not_known_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*words: object, **more: object) -> None:
        raise sockets.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(sockets, "getaddrinfo", unknown)
    for command in ("status", "put"):
        assert "the name of the server's host is not known" in spooltop(command, "redis://elsewhere#a/b").err


@pytest.mark.parametrize(
    ("limit", "value", "words"),
    [("_PATIENCE", -1.0, "too many keys to search for a pattern"), ("_GROUPS_AT_MOST", 1, "stands for 2 groups")],
)
def test_too_many_keys_or_groups_are_refused(
    client: Any, socket: str, monkeypatch: pytest.MonkeyPatch, limit: str, value: float, words: str
) -> None:
    for stream in ("jobs:a", "jobs:b"):
        client.xgroup_create(stream, "work", "0", mkstream=True)
    monkeypatch.setattr(f"spooltop.backends.redis.backend.{limit}", value)
    assert words in spooltop("status", f"unix://{socket}#jobs:*").err


@pytest.fixture(scope="module")
def certificates() -> Iterator[Path]:
    """A CA made here, so that the date of this machine suits it, and certificates for localhost and for another host."""
    with TemporaryDirectory(prefix="spooltop-tls-") as path:
        folder = Path(path)
        _openssl(
            folder, "req", "-x509", *_KEY, "-keyout", "ca.key", "-out", "ca.crt", "-days", "9", "-subj", "/CN=tests",
            "-addext", "keyUsage=critical,keyCertSign,cRLSign",
        )  # fmt: skip  # Python 3.13 trusts no CA that does not say what its key is for
        for host in ("localhost", "other.example"):
            (folder / "names").write_text(f"subjectAltName=DNS:{host}\nauthorityKeyIdentifier=keyid\n")
            _openssl(folder, "req", *_KEY, "-keyout", f"{host}.key", "-out", f"{host}.csr", "-subj", f"/CN={host}")
            _openssl(
                folder, "x509", "-req", "-in", f"{host}.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial",
                "-days", "9", "-extfile", "names", "-out", f"{host}.crt",
            )  # fmt: skip
        yield folder


_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


def _openssl(folder: Path, *words: str) -> None:
    subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)


@pytest.fixture(scope="module")
def ports(certificates: Path) -> Iterator[dict[str, int]]:
    """Ports of servers with TLS, by the host that their certificates name; "plain" is one without."""
    found = {}
    with ExitStack() as stack:
        for host in ("localhost", "other.example", "plain"):
            port = found[host] = free_port()
            folder = certificates / f"of {host}"
            folder.mkdir()
            tls = (
                "--tls-port", str(port), "--tls-cert-file", f"{certificates}/{host}.crt", "--tls-key-file",
                f"{certificates}/{host}.key", "--tls-ca-cert-file", f"{certificates}/ca.crt", "--tls-auth-clients", "no",
            )  # fmt: skip
            server = stack.enter_context(running("redis", folder, *(("--port", str(port)) if host == "plain" else tls)))
            with Redis(unix_socket_path=server) as client:
                client.xgroup_create("jobs", "work", "0", mkstream=True)
        yield found


def _tried(url: str) -> list[Done]:
    return [spooltop("status", url), spooltop("put", url, stdin=b"x"), spooltop("status", url.rpartition("/")[0])]


@pytest.mark.parametrize("in_url", [False, True])
def test_a_ca_is_trusted_that_is_named(
    ports: dict[str, int], certificates: Path, monkeypatch: pytest.MonkeyPatch, in_url: bool
) -> None:
    option = f"?ssl_ca_certs={certificates}/ca.crt" if in_url else ""
    if not in_url:
        monkeypatch.setenv("SSL_CERT_FILE", f"{certificates}/ca.crt")
    url = f"rediss://localhost:{ports['localhost']}/0{option}#jobs/work"
    for done in _tried(url):
        assert (done.code, done.err) == (0, ""), done
    with open_control(url, watch=False, settings={}) as control:
        count = control.look().observation.boxes[Box.NEW].count
        assert count and control.target == f"rediss://localhost:{ports['localhost']}#jobs/work"


@pytest.mark.parametrize(
    ("ca", "scheme", "host", "line"),
    [
        ("", "rediss", "localhost", "certificate is of a CA that is not known here; name the file of its CA in SSL_CERT_FILE"),
        ("missing", "rediss", "localhost", "SSL_CERT_FILE names a file that cannot be read: "),
        ("ca.crt", "rediss", "other.example", "certificate is for another host; write the host that it is for, or look"),
        pytest.param(
            "ca.crt", "rediss", "plain", "the server does not speak TLS at this port, or is slow; write redis://, or the port",
            marks=pytest.mark.long,
        ),
        ("ca.crt", "redis", "localhost", "look at its log; if it speaks TLS, write rediss://"),
    ],
)  # fmt: skip
def test_what_does_not_verify_is_one_line_that_says_what_to_do(
    ports: dict[str, int], certificates: Path, monkeypatch: pytest.MonkeyPatch, ca: str, scheme: str, host: str, line: str
) -> None:
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    if ca:
        monkeypatch.setenv("SSL_CERT_FILE", f"{certificates}/{ca}")
    for done in _tried(f"{scheme}://localhost:{ports[host]}/0#jobs/work"):
        assert done.code == 5 and done.out == "" and done.err.count("\n") == 1, done
        late = host == "plain" and "open: no answer from the server in time" in done.err
        assert (line in done.err or late) and "CERTIFICATE_VERIFY_FAILED" not in done.err and "_ssl.c" not in done.err, done


def test_a_server_may_want_a_certificate_of_its_clients(
    ports: dict[str, int], certificates: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", f"{certificates}/ca.crt")
    with Redis(unix_socket_path=f"{certificates}/of localhost/redis.sock") as client:
        client.config_set("tls-auth-clients", "yes")
        try:
            url = f"rediss://localhost:{ports['localhost']}/0"
            done = spooltop("status", f"{url}#jobs/work")
            assert done.code == 5 and "add ?ssl_certfile=FILE&ssl_keyfile=FILE" in done.err, done
            own = f"{certificates}/localhost"
            assert spooltop("status", f"{url}?ssl_certfile={own}.crt&ssl_keyfile={own}.key#jobs/work").code == 0
        finally:
            client.config_set("tls-auth-clients", "no")


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (10, "certificate has expired"), (9, "certificate is not valid yet; set the clock"), (7, "does not verify: of some sort"),
        *((code, "is of a CA that is not known here") for code in (2, 18, 19, 20, 21)),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_certificate_is_said_in_words(
    ports: dict[str, int], monkeypatch: pytest.MonkeyPatch, code: int, words: str
) -> None:
    def refuses(*words: object, **more: object) -> None:
        error = ssl.SSLCertVerificationError(1, "certificate verify failed")
        error.verify_code, error.verify_message = code, "of some sort"
        raise error

    monkeypatch.setattr(ssl.SSLContext, "wrap_socket", refuses)
    for done in _tried(f"rediss://localhost:{ports['localhost']}/0#jobs/work"):
        assert done.code == 5 and words in done.err and done.err.count("\n") == 1, done


@pytest.mark.parametrize("words", ["status URL", "put URL", "locks . --redis-tickets URL"])
def test_without_redis_py_one_line_names_the_command_that_installs_it(tmp_path: Path, words: str) -> None:
    (tmp_path / "redis.py").write_text("raise ImportError")
    command = [sys.executable, "-m", "spooltop", *words.replace("URL", "redis://127.0.0.1:1/0#jobs/work").split()]
    environ = {**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT}"}
    done = subprocess.run(command, input="x", env=environ, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stderr == "spooltop: a queue in Redis needs the package redis; pip install 'spooltop[redis]'\n"
    assert (done.returncode, done.stdout) == (2, "")
