"""The bench: what it does to a directory, in processes of its own, and the figures that come of it."""
