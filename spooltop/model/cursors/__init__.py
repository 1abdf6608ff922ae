"""Cursors: their files and histories as one look tells them, and the values that people type and pollers write. Pure."""
