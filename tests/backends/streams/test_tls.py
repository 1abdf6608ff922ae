"""TLS: a certificate of a CA that is named is trusted, and every other is refused in one line that says what to do."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from redis import Redis

from spooltop.control import open_control
from spooltop.model.vocabulary import Box
from tests.cli.streams import Done, spooltop
from tests.stream_servers import free_port, running


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
        ("ca.crt", "rediss", "plain", "the server does not speak TLS at this port, or is slow; write redis://, or the port"),
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


def test_a_certificate_that_cannot_be_read_is_no_traceback(ports: dict[str, int]) -> None:
    url = f"rediss://localhost:{ports['localhost']}/0?ssl_ca_certs=/nowhere#jobs/work"
    for done in _tried(url):
        assert done.code in (2, 5) and done.err.count("\n") == 1 and "Traceback" not in done.err, done
