"""The spool itself: names, files, presence, claims, cursors, tickets. Usable without anything above it."""
