"""kombu's filesystem transport, which Celery uses as well."""

import os

from answering import SPOOL, answer
from kombu import Connection

connection = Connection("filesystem://", transport_options={
    "data_folder_in": str(SPOOL / "in"), "data_folder_out": str(SPOOL / "in"), "processed_folder": str(SPOOL / "processed"),
    "control_folder": str(SPOOL / "control"), "store_processed": True,
})  # fmt: skip
for folder in ("in", "processed", "control"):
    os.makedirs(SPOOL / folder, exist_ok=True)
queues = {}


def _queue(name):
    if name not in queues:
        queues[name] = connection.SimpleQueue(name)
    return queues[name]


def put(data, queue="jobs"):
    _queue(queue).put({"data": data})


def take(queue="jobs"):
    """Takes the next message and no further ones; its content."""
    message = _queue(queue).queue.get(no_ack=True)
    return None if message is None else message.payload["data"]


def size(queue="jobs"):
    return _queue(queue).qsize()


answer(put, take, size)
