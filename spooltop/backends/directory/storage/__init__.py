"""How a spool lies on the disk: its directories, the places of messages in them, and the identity of a file."""
