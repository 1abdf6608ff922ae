"""``events`` as a program that runs until it is stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from spooltop.cli.main import Terminal, run
from tests.builders import SpoolWorld, message_id

from .streams import Stream, running, spooltop


def next_event(process: subprocess.Popen[bytes], kind: str, code: str | None = None) -> dict[str, Any]:
    assert process.stdout is not None
    while True:
        event: dict[str, Any] = json.loads(process.stdout.readline())
        if event["event"] == kind and event.get("code") == code:
            return event


def consumer_dies(world: SpoolWorld) -> None:
    world.put(message_id(1))
    world.claim_dead()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_problems_and_operations_are_told_until_a_signal(world: SpoolWorld, tmp_path: Path, number: signal.Signals) -> None:
    with running("events", world.path, tmp_path / "none", "--json") as process:
        assert next_event(process, "unreadable")["target"] == str(tmp_path / "none")
        consumer_dies(world)
        begins = next_event(process, "begins", "claims-dead")
        assert (begins["severity"], begins["target"]) == ("critical", str(world.path))
        assert spooltop("requeue", world.path, "--verdict", "dead", "--yes").code == 0
        assert next_event(process, "operation")["done"] == 1
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
        assert (process.returncode, err) == (0, b"")


def test_a_command_gets_each_event_and_its_failure_is_told(world: SpoolWorld, tmp_path: Path) -> None:
    consumer_dies(world)
    kept = tmp_path / "kept"
    with running("events", world.path, "--exec", f"cat >> {kept}; exit 7") as process:
        assert process.stdout is not None and process.stderr is not None
        assert b" begins critical claims-dead: 1 claim" in process.stdout.readline()
        assert b"--exec: exit code 7" in process.stderr.readline()
        process.terminate()
        process.communicate(timeout=60)
        assert process.returncode == 0
    lines = [json.loads(line) for line in kept.read_text().splitlines()]
    assert (lines[0]["event"], lines[0]["code"]) == ("begins", "claims-dead")


def test_a_reader_that_stalls_does_not_keep_it_from_ending(world: SpoolWorld, tmp_path: Path) -> None:
    written, goes_on, left = threading.Event(), threading.Event(), []

    class Stalled(Stream):
        def write(self, text: str) -> int:
            written.set()
            left.append(goes_on.wait(30))
            return len(text)

    def stop() -> None:
        written.wait(30)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=stop, daemon=True).start()
    terminal = Terminal(Stream(), Stalled(), Stream(), {"TERM": "xterm"})
    assert run(["events", str(world.path), str(tmp_path / "none")], terminal, dashboard=lambda *_: 42) == 0
    assert written.is_set() and not left
    goes_on.set()
