"""dirq's QueueSimple."""

from answering import SPOOL, answer, text
from dirq.QueueSimple import QueueSimple

queue = QueueSimple(str(SPOOL))


def put(data):
    return queue.add(data)


def lock(name):
    return bool(queue.lock(name))


def remove(name):
    queue.remove(name)


def take():
    """Takes the first element that can be locked: its content."""
    for name in queue:
        if queue.lock(name):
            data = text(queue.get(name))
            queue.remove(name)
            return data
    return None


def size():
    return queue.count()


def names():
    return list(queue)


def purge():
    queue.purge(maxtemp=1, maxlock=1)


answer(put, lock, remove, take, size, names, purge)
