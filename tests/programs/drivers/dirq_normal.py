"""dirq's Queue, with elements of two parts."""

from answering import SPOOL, answer
from dirq.queue import Queue

queue = Queue(str(SPOOL), schema={"body": "string", "header": "table?"})


def put(data):
    return queue.add({"body": data, "header": {"a": "1"}})


def lock(name):
    return bool(queue.lock(name))


def remove(name):
    queue.remove(name)


def take():
    """Takes the first element that can be locked: its content."""
    for name in queue:
        if queue.lock(name):
            data = queue.get(name)["body"]
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
