"""``metrics``: once, into a file, over HTTP."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from prometheus_client import start_http_server

from spooltop.cli.commands.metrics import close_idle
from spooltop.engine import Spool

from .streams import finish, running, spooltop


def waiting(spool: Path, count: int) -> str:
    return f'spooltop_messages{{box="new",target="{spool}"}} {float(count)}\n'


@pytest.mark.parametrize("text", ["", "host:", "::1:9923", "1.2.3.4:99999", "[::1]9923", "²", "-1", "[:9923"])
def test_what_is_no_address_is_a_usage_error(spool: Path, text: str) -> None:
    done = spooltop("metrics", spool, f"--listen={text}")
    assert done.code == 2 and "as in --listen 127" in done.err


def test_without_the_library_it_says_how_to_get_it(spool: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "prometheus_client"]:
        monkeypatch.delitem(sys.modules, name)
    for name in ("spooltop.cli.commands.metrics", "spooltop.cli.commands.metrics"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if not (Path(path or ".") / "prometheus_client").is_dir()])
    said = "spooltop: metrics needs prometheus_client; in the checkout, pip install '.[metrics]'\n"
    for words in ((spool,), ("--grafana",)):
        done = spooltop("metrics", *words)
        assert (done.code, done.err) == (2, said)


def port(process: subprocess.Popen[bytes]) -> str:
    """The port of a server that says where it serves."""
    assert process.stderr is not None
    word = process.stderr.readline().decode().split()[2]
    assert word.startswith("http://127.0.0.1:") and word.endswith("/metrics")
    return word.removeprefix("http://127.0.0.1:").removesuffix("/metrics")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_serves_what_changes_until_a_signal_ends_it(spool: Path, number: signal.Signals) -> None:
    with running("metrics", spool, "--listen", "127.0.0.1:0") as process:
        url = f"http://127.0.0.1:{port(process)}/metrics"

        def served() -> str:
            with urllib.request.urlopen(url, timeout=60) as answer:
                return str(answer.read().decode())

        while waiting(spool, 0) not in served():
            assert process.poll() is None
        with Spool(spool) as queue:
            queue.put(b"y")
        while waiting(spool, 1) not in served():
            assert process.poll() is None
        process.send_signal(number)
        assert process.wait(60) == 0


@pytest.mark.parametrize("sent", [b"", b"GET /metr", b"GET /metrics HTTP/1.1\r\nHost: a\r\n"])
def test_a_connection_on_which_nothing_comes_is_closed(
    sent: bytes, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("spooltop.cli.commands.metrics._IDLE", 0.1)
    server, thread = start_http_server(0, addr="127.0.0.1")
    close_idle(server)
    try:
        with socket.create_connection(("127.0.0.1", server.server_port), timeout=60) as client:
            client.sendall(sent)
            assert client.recv(1) == b""
        server.RequestHandlerClass.timeout = 60.0  # a machine may be busy
        with urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/metrics", timeout=60) as answer:
            assert answer.status == 200
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    assert capfd.readouterr().err == ""


def test_where_it_cannot_serve_or_write_it_ends_with_one_line(spool: Path, tmp_path: Path) -> None:
    with running("metrics", spool, "--listen", "0") as first:
        taken = port(first)
        for words, said in (
            (("--listen", taken), f"cannot listen on 127.0.0.1:{taken}"),
            (("--textfile", tmp_path / "none" / "x.prom"), "cannot be written: No such file or directory"),
        ):
            done = finish(["metrics", spool, *words])
            assert (done.code, said in done.err, done.err.count("\n")) == (5, True, 1)


def test_the_textfile_is_replaced_again_and_again(spool: Path, tmp_path: Path) -> None:
    path = tmp_path / "out" / "spooltop.prom"
    path.parent.mkdir()
    with running("metrics", spool, "--textfile", path, "--every", "1s") as process:
        while not path.exists() or waiting(spool, 0) not in path.read_text():
            assert process.poll() is None
        inode = path.stat().st_ino
        while path.stat().st_ino == inode:
            assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    assert [one.name for one in path.parent.iterdir()] == [path.name]
