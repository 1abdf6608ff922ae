"""The consumer's side of a spool: waiting, claims and every way they end, recovery."""
