"""Staging directories: ``.spooltop/stage/<folder>/``. Files in them are drafts like those in ``tmp``."""

from __future__ import annotations

__all__ = ["STAGE"]

STAGE = "stage"
"""Name of the directory below ``.spooltop`` that holds the staging directories."""
