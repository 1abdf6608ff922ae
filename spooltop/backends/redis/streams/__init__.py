"""Streams of a server, looked at: nothing here changes anything, and nothing needs the package redis."""
