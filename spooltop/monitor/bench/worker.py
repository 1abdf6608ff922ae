"""Worker process of ``bench``: ``python -m spooltop.monitor.bench.worker``.

It reads jobs from standard input, a JSON object a line, answers ``ready``, reads the moment to begin (ns of the monotonic clock),
and writes what it measured as JSON. It ends with its parent, or at the end of standard input.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from typing import Any

from spooltop.engine.system.syscalls import end_with_parent

from ..watching import Latencies
from .tasks import Measured, run_files, run_lock, run_reader, run_writer


def main() -> None:
    parent = int(sys.argv[1])
    end_with_parent(signal.SIGKILL)
    if os.getppid() != parent:
        return  # it ended before the kernel was asked
    import filelock  # noqa: F401  loaded before anything is timed

    print("started", flush=True)
    for line in sys.stdin:
        job = json.loads(line)
        print("ready", flush=True)
        begin = int(sys.stdin.readline() or 0)
        try:
            time.sleep(max(0.0, (begin - time.monotonic_ns()) / 1e9))
            answer = _result(_run(job, begin + int(job["seconds"] * 1e9)))
        except Exception as error:  # noqa: BLE001  the parent reports it, with the name of the run
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


def _run(job: dict[str, Any], until: int) -> Measured:
    task, folder = job["task"], job["folder"]
    if task == "files":
        return run_files(job["name"], folder, until)
    if task == "lock":
        return run_lock(job["name"], folder, until, counted=job["counted"])
    return (run_writer if task == "writer" else run_reader)(folder, until, durable=job["durable"])


def _result(found: Measured) -> dict[str, Any]:
    return {
        "seconds": found.seconds,
        "times": list(Latencies.of(found.times).counts.items()),
        "delivered": list(Latencies.of(found.delivered).counts.items()),
    }


if __name__ == "__main__":
    main()
