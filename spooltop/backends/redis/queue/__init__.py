"""The engine's words on a Redis stream: put, claim, ack, release, reject, recover. Needs the package redis."""
