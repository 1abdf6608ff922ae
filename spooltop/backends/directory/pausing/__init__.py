"""Pausing a spool and resuming it."""
