"""Floor 0: the words. Frozen and pure; no file, process or clock is touched here."""
