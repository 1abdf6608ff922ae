"""Draws the panels of a large window: their frames, and what stands in them."""
