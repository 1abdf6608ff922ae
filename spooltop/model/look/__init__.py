"""Facts that one look at a queue tells, and the snapshot and the problems that are made of them. Frozen and pure."""
