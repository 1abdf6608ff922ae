"""Streams and ticket queues of a Redis server. Only such targets load redis-py, which takes 100 ms."""

from spooltop.errors import UsageError

try:
    import redis as redis
except ImportError:
    raise UsageError("a queue in Redis needs the package redis", "pip install 'spooltop[redis]'") from None
