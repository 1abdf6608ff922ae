"""taskiq's broker on a Redis stream, with the receiver that its own workers run."""

import asyncio
import threading

from answering import SPOOL, answer
from redis.asyncio import Redis
from taskiq.api import run_receiver_task
from taskiq_redis import RedisStreamBroker

URL = f"unix://{SPOOL}"
here = asyncio.new_event_loop()


def _broker():
    broker = RedisStreamBroker(
        URL, queue_name="jobs", consumer_group_name="work", consumer_id="0", xread_block=50, xread_count=5,
        unacknowledged_lock_timeout=1.0,
    )  # fmt: skip

    @broker.task(task_name="job")
    async def job(data):
        await asyncio.sleep(0.02)
        async with Redis.from_url(URL) as server:
            await server.rpush("done", data)

    return broker, job


producer, job_of_producer = _broker()


def put(data):
    here.run_until_complete(job_of_producer.kiq(data))


async def _work(broker):
    broker.is_worker_process = True
    await run_receiver_task(broker, max_async_tasks=2, max_prefetch=1, run_startup=True)


def work():
    """Works until it is killed. Returns the name of its consumer."""
    broker, _ = _broker()
    threading.Thread(target=asyncio.run, args=(_work(broker),), daemon=True).start()
    return broker.consumer_name


here.run_until_complete(producer.startup())
answer(put, work)
