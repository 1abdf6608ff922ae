"""Ticket queues in Redis, read only. It speaks the protocol itself and does not need the package redis."""
