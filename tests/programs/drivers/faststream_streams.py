"""FastStream's subscriber of a Redis stream, which reads new entries only."""

import asyncio
import threading
import uuid

from answering import SPOOL, answer
from faststream.redis import RedisBroker, StreamSub
from redis.asyncio import Redis

URL = f"unix://{SPOOL}"
here = asyncio.new_event_loop()
producer = RedisBroker(URL, logger=None)


def put(data):
    here.run_until_complete(producer.publish(data, stream="jobs"))


async def _work(name):
    broker = RedisBroker(URL, logger=None)

    @broker.subscriber(stream=StreamSub("jobs", group="work", consumer=name, max_records=5, polling_interval=50))
    async def job(data: str):
        await asyncio.sleep(0.01)
        async with Redis.from_url(URL) as server:
            await server.rpush("done", data)

    await broker.start()
    await asyncio.Event().wait()


def work():
    """Works until it is killed. Returns the name of its consumer."""
    name = str(uuid.uuid4())
    threading.Thread(target=asyncio.run, args=(_work(name),), daemon=True).start()
    return name


here.run_until_complete(producer.connect())
answer(put, work)
