"""Cursor files: the position up to which each source has been read."""
