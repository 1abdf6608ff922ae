"""Mailman's queue directory, by its own Switchboard."""

import os
import sys

from answering import SPOOL, answer

os.makedirs(SPOOL, exist_ok=True)
home = os.environ["MAILMAN_HOME"]
os.makedirs(home, exist_ok=True)
with open(os.path.join(home, "mailman.cfg"), "w") as file:
    file.write(f"[mailman]\nlayout: here\n[paths.here]\nvar_dir: {home}\nqueue_dir: {SPOOL}\n")
from mailman.core import initialize  # noqa: E402

sys.argv = sys.argv[:1]
initialize.initialize_1(os.path.join(home, "mailman.cfg"))
initialize.initialize_2()
from mailman.config import config  # noqa: E402
from mailman.email.message import Message  # noqa: E402


def put(data, queue="in"):
    message = Message()
    message["Subject"] = data
    message.set_payload("hello")
    return config.switchboards[queue].enqueue(message, listid="test.example.com")


def take(queue="in", end=True):
    """Takes the oldest message as a runner does; its subject."""
    board = config.switchboards[queue]
    for base in board.files:
        try:
            message, _ = board.dequeue(base)
        except FileNotFoundError:
            continue  # taken by another
        if end:
            board.finish(base)
        return message["Subject"]
    return None


def finish(queue, base, preserve=False):
    config.switchboards[queue].finish(base, preserve=preserve)


def size(queue="in"):
    return len(config.switchboards[queue].files)


def files(queue, extension=".pck"):
    return config.switchboards[queue].get_files(extension)


def recover(queue):
    config.switchboards[queue].recover_backup_files()


answer(put, take, finish, size, files, recover)
