"""Streams of a server, looked at: nothing here changes anything."""
