"""Cursors over time: the history of each source, what it says of the source, and what pollers log."""
