"""Pinned list of an operation: the messages that a selection means, what may happen to each, and why not."""
