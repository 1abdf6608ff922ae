"""The engine's words on a Redis stream: put, claim, ack, release, reject, recover."""
