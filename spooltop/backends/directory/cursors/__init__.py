"""Cursor files: their versions, who writes them, and the change of one cursor by an operator."""
