"""An instance of Postfix of its own, that sends nothing: mail is deferred, kept active by a command that waits, or discarded."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any

from .actor import wait_for

__all__ = ["Postfix"]

_MAIN = """
compatibility_level = 3.6
queue_directory = {queue}
data_directory = {data}
daemon_directory = {daemons}
mail_owner = postfix
setgid_group = postdrop
inet_interfaces = loopback-only
master_service_disable = inet
myhostname = queue.example.com
mydestination =
local_recipient_maps =
alias_maps =
mynetworks = 127.0.0.0/8
transport_maps = inline:{{slow.example=slow:, done.example=discard:}}
default_transport = retry:4.4.1 the other side is away
relay_transport = retry:4.4.1 the other side is away
local_transport = retry:4.4.1 the other side is away
qmgr_message_active_limit = 2
"""
_SERVICES = """
pickup    unix  n - n 60   1 pickup
cleanup   unix  n - n -    0 cleanup
qmgr      unix  n - n 300  1 qmgr
rewrite   unix  - - n -    - trivial-rewrite
bounce    unix  - - n -    0 bounce
defer     unix  - - n -    0 bounce
trace     unix  - - n -    0 bounce
flush     unix  n - n 1000? 0 flush
showq     unix  n - n -    - showq
error     unix  - - n -    - error
retry     unix  - - n -    - error
discard   unix  - - n -    - discard
slow      unix  - n n -    - pipe
  flags=q user=nobody argv=/bin/sleep 900
"""


class Postfix:
    """Runs in the directory ``home``; ``queue`` is its queue, ``settings`` the directory for -c. Needs root."""

    def __init__(self, home: Path) -> None:
        home.mkdir(parents=True, exist_ok=True)
        self.queue, self.settings, data = home / "queue", home / "settings", home / "data"
        for folder in (self.queue, self.settings, data):
            folder.mkdir(exist_ok=True)
        for folder in (home, *home.parents):
            if folder.owner() == "root" and folder != Path("/"):
                folder.chmod(folder.stat().st_mode | 0o055)  # its processes are those of a user of its own
        shutil.chown(data, "postfix")
        asked = subprocess.run(["postconf", "-h", "daemon_directory"], capture_output=True, text=True, check=True, env=_ENV)
        words = _MAIN.format(queue=self.queue, data=data, daemons=asked.stdout.strip())
        (self.settings / "main.cf").write_text(words)
        (self.settings / "master.cf").write_text(_SERVICES)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts it in the foreground. In the background it gives up after ten seconds, which a busy machine may need."""
        command = ["postfix", "-c", str(self.settings), "start-fg"]
        self._process = process = subprocess.Popen(command, env=_ENV, stdin=subprocess.DEVNULL)
        last = self.queue / "private" / "slow"  # the last service that it listens for
        wait_for(lambda: last.exists() or process.poll() is not None)
        if process.poll() is not None:
            raise RuntimeError(f"postfix ended with status {process.returncode}")

    def stop(self) -> None:
        if self._process is not None:
            self.run("postfix", "-c", str(self.settings), "stop")
            self._process.wait()
            self._process = None

    def run(self, *command: str, text: str = "") -> str:
        """Runs one of its programs; returns what it prints."""
        found = subprocess.run(command, input=text, capture_output=True, text=True, env=_ENV)
        if found.returncode:
            raise RuntimeError(f"{command}: {found.stdout}{found.stderr}")
        return found.stdout

    def mail(self, sender: str, to: str) -> None:
        self.run("sendmail", "-C", str(self.settings), "-f", sender, to, text="Subject: a test\n\nhello\n")

    def super(self, *words: str) -> str:
        """Runs postsuper."""
        return self.run("postsuper", "-c", str(self.settings), *words)

    def flush(self, id: str) -> str:
        return self.run("postqueue", "-c", str(self.settings), "-i", id)

    def listed(self) -> list[dict[str, Any]]:
        """What postqueue lists."""
        lines = self.run("postqueue", "-c", str(self.settings), "-j").splitlines()
        return [json.loads(line) for line in lines]

    def in_queue(self, name: str) -> list[str]:
        """The ids in one of its queues, as postqueue lists them."""
        return sorted(one["queue_id"] for one in self.listed() if one["queue_name"] == name)

    def __enter__(self) -> Postfix:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()


_ENV = {**os.environ, "PATH": f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"}
