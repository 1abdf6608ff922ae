"""Moves of a plan: batches, rechecks, metadata, syncs, and what a crash left half done."""
