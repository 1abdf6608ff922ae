"""Changes to the messages of a spool: candidates, plans, moves, metadata, repair and undo."""
