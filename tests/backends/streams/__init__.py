"""Streams of a Redis or Valkey server."""
