"""Follows messages and operations after a change."""
