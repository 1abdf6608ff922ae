"""A password of the server is in nothing that is printed, drawn or written, whatever is done with the stream."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from redis import Redis

from spooltop import open_queue
from spooltop.engine import Spool
from spooltop.errors import SpooltopError
from tests.cli.streams import Done, spooltop
from tests.e2e.terminal import SPOOLTOP, Terminal
from tests.stream_servers import free_port, running

SECRET = "hush8f3a1c"
TYPED = (
    ("put", "URL"), ("put", "URL", "--key", "k1"), ("status", "URL"), ("status", "URL", "--json"), ("ls", "URL"),
    ("ls", "URL", "--json"), ("show", "URL", "ID"), ("check", "URL"), ("metrics", "URL"), ("consumers", "URL"),
    ("consumers", "URL", "--json"), ("cursors", "URL"), ("requeue", "URL", "ALL", "--yes", "--force"),
    ("hold", "URL", "ALL", "--yes", "--force"), ("release", "URL", "ALL", "--yes"),
    ("purge", "URL", "ALL", "--box", "new", "--yes", "--json"), ("pause", "URL", "--yes"), ("resume", "URL", "--yes"),
    ("inject", "URL", "--count", "2", "--yes"), ("ops", "URL"), ("ops", "URL", "--json"), ("undo", "URL", "OPERATION", "--yes"),
    ("doctor", "URL"), ("config", "show"), ("config", "show", "--json"),
    ("move", "URL", "DIRECTORY", "--yes"), ("move", "DIRECTORY", "URL", "--yes"), ("work", "URL", "--drain", "--", "true"),
    ("status", "URL", "DIRECTORY"), ("status", "SERVER#gone/work"), ("status", "SERVER#jobs/gone"), ("ls", "SERVER#gone"),
    ("put", "SERVER#gone/work"), ("put", "SERVER#jobs/gone"), ("show", "URL", "9-9"), ("undo", "URL", "none", "--yes"),
    ("init", "SERVER#more/work"), ("init", "URL"), ("requeue", "SERVER#"), ("nonsense", "URL"), ("status", "URL", "--nonsense"),
    ("locks", "URL"), ("tickets", "URL"), ("unlock", "URL", "x", "--yes"), ("events", "SERVER#gone/work"),
    ("restore", "URL", "x", "--yes"),
    ("status", "redis://:SECRET@127.0.0.1:x/0#jobs/work"), ("status", "redis://:SECRET@127.0.0.1:1/0#jobs/work"),
    ("status", "redis://a:SE/CRET:SECRET@127.0.0.1/0#jobs/work"), ("put", "rediss://:SECRET@127.0.0.1:PORT/0#jobs/work"),
)  # fmt: skip
"""Commands with their words. URL has the password in it, unless that comes from the environment."""

_NEVER_0 = {"check", "nonsense", "doctor", "locks", "tickets", "unlock", "events", "restore", "move"}


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with TemporaryDirectory(prefix="spooltop-secrets-") as folder:
        options = ("--logfile", f"{folder}/log", "--port", str(port := free_port()))
        with running("redis", Path(folder), *options) as path, Redis(unix_socket_path=path) as client:
            client.config_set("requirepass", SECRET)
            yield port


@pytest.fixture
def client(port: int) -> Iterator[Any]:
    with Redis(port=port, password=SECRET, single_connection_client=True) as made:
        made.flushall()
        made.xgroup_create("jobs", "work", "0", mkstream=True)
        for number in range(6):
            made.xadd("jobs", {"data": f"m{number}"})
        made.xreadgroup("work", "bob", {"jobs": ">"}, count=3)
        yield made


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home of a user without any settings."""
    for name in [name for name in os.environ if name.startswith(("SPOOLTOP_", "XDG_", "SSL_CERT"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr("spooltop.backends.redis.operator.operator.STATE_DIR", str(tmp_path / "state"))  # root's own
    return tmp_path


def _typed(words: tuple[str, ...], url: str, port: int, home: Path, seen: dict[str, str]) -> Done:
    server = url.partition("#")[0]
    replaced = {"URL": url, "DIRECTORY": str(home / "dir"), **seen}
    told = [replaced.get(word, word).replace("SERVER#", f"{server}#") for word in words]
    told = [word.replace("SECRET", SECRET).replace("PORT", str(port)) for word in told]
    done = spooltop(*told, stdin=b"x", environ=dict(os.environ))
    for line in done.out.splitlines():
        if words[:2] == ("ops", "URL") and "--json" in words:
            seen.setdefault("OPERATION", json.loads(line)["operation"])  # the newest
        if words[0] == "put" and line.replace("-", "").isdecimal():
            seen["ID"] = line
    return done


def _written(home: Path) -> str:
    """Everything in the files below the home, and their names."""
    files = [path for path in home.rglob("*") if path.is_file()]
    return "\n".join(f"{path} {path.read_bytes().decode(errors='replace')}" for path in files)


def _on_server(client: Any) -> str:
    """All keys with what they hold, and what the server knows of its clients."""
    dumps = [f"{key!r} {client.dump(key)!r}" for key in client.scan_iter()]
    return "\n".join((*dumps, str(client.client_list())))


@pytest.mark.long
@pytest.mark.parametrize("how", ["in the URL", "with tracebacks", "of the environment", "of a file"])
def test_no_command_shows_or_keeps_it(client: Any, port: int, home: Path, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    in_url = how in ("in the URL", "with tracebacks")
    url = f"redis://{f':{SECRET}@' if in_url else ''}127.0.0.1:{port}/0#jobs/work"
    if how == "with tracebacks":
        monkeypatch.setenv("SPOOLTOP_DEBUG", "1")
    if how == "of the environment":
        monkeypatch.setenv("SPOOLTOP_REDIS_PASSWORD", SECRET)
    settings = home / ".config" / "spooltop" / "config.toml"
    if how == "of a file":
        settings.parent.mkdir(parents=True)
        settings.touch(0o600)
        settings.write_text(f'redis_password = "{SECRET}"\n')
    Spool.create(home / "dir", durable=False).close()
    seen: dict[str, str] = {}
    codes: dict[str, set[int]] = {}
    for words in TYPED:
        done = _typed(words, url, port, home, seen)
        assert SECRET not in done.out + done.err, (words, done)
        codes.setdefault(words[0], set()).add(done.code)
        if "URL" in words and in_url:
            assert "in ps; put it into SPOOLTOP_REDIS_PASSWORD" in done.err or done.code == 2, (words, done)
        elif "URL" in words:
            assert "in ps" not in done.err
    assert {"OPERATION", "ID"} <= seen.keys()
    assert [name for name in codes.keys() - _NEVER_0 if 0 not in codes[name]] == []
    known = set(re.findall(r"^  ([a-z]+)  ", spooltop("--help").out, re.MULTILINE))
    assert len(known) > 20 and known - codes.keys() <= {"bench", "completion", "demo", "help", "layouts", "version"}
    settings.unlink(missing_ok=True)
    assert SECRET not in _written(home) and "messages.jsonl" in _written(home)
    assert SECRET not in _on_server(client) and "spooltop" in _on_server(client)


def test_the_dashboard_does_not_show_or_keep_it(client: Any, port: int, home: Path) -> None:
    url = f"redis://:{SECRET}@127.0.0.1:{port}/0#jobs/work"
    with Terminal([*SPOOLTOP, url], rows=24, env={"HOME": str(home)}) as terminal:
        terminal.wait_for("claims of unknown holders", 120)
        for key in "235781":
            terminal.type(key)
            terminal.collect(0.3)
        terminal.type("3")
        terminal.wait_for("Claims 3")
        client.config_set("requirepass", "another")
        client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        terminal.type("1")
        try:
            terminal.wait_for("the server refuses this user or password", 120)
        finally:
            client.config_set("requirepass", SECRET)
        terminal.wait_for(lambda text: "STALE" not in text, 120)
        terminal.type("?")
        terminal.collect(0.3)
        terminal.type("q")
        terminal.wait_for("1Over")
        terminal.type("q")
        terminal.wait_exit(120)
        assert SECRET.encode() not in terminal.raw and b"Traceback" not in terminal.raw
    assert SECRET not in _written(home) and SECRET not in _on_server(client)


def test_no_error_of_a_queue_carries_it(client: Any, port: int, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for url in (f"redis://:{SECRET}@127.0.0.1:1#jobs/work", f"redis://:{SECRET}x@127.0.0.1:{port}#jobs/work"):
        with pytest.raises(SpooltopError) as refused:
            open_queue(url)
        error: BaseException | None = refused.value
        while error is not None:  # a report of a crash may print the whole chain
            assert SECRET not in f"{error!r} {error} {error.args} {vars(error)}"
            error = error.__cause__ if error.__suppress_context__ else error.__context__
    with open_queue(f"redis://:{SECRET}@127.0.0.1:{port}#jobs/work") as queue:
        assert SECRET not in repr(queue) + queue.name
