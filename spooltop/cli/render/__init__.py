"""Snapshots, lists, plans and results as lines of text or JSON objects. Pure."""
