"""huey's FileStorage, through the API that applications use."""

import time

from answering import SPOOL, answer
from huey import FileHuey

SPOOL.mkdir(parents=True, exist_ok=True)  # huey's own way fails where two processes begin at once
huey = FileHuey("jobs", path=str(SPOOL))


@huey.task()
def job(data):
    return data


def put(data, priority=None, delay=None):
    return job.schedule((data,), delay=delay, priority=priority).id if delay else job(data).id if priority is None else (
        huey.enqueue(job.s(data, priority=priority)).id
    )


def take():
    """Runs the next task as a worker does; its result."""
    task = huey.dequeue()
    return None if task is None else huey.execute(task)


def due(after=0.0):
    """Moves what is due ``after`` so many seconds from now to the queue, as the scheduler does."""
    from datetime import timedelta

    from huey.utils import utcnow

    found = huey.read_schedule(utcnow() + timedelta(seconds=after))
    for task in found:
        huey.enqueue(task)
    return [task.id for task in found]


def size():
    return huey.pending_count() + huey.scheduled_count()


def hold_lock(seconds):
    """Holds the lock of the storage, answering before it lets go."""
    with huey.storage.lock:
        print("true", flush=True)
        time.sleep(seconds)


answer(put, take, due, size, hold_lock)
