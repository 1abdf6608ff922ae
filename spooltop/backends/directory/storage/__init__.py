"""On-disk layout of a spool: its directories, the places of messages in them, and the identity of a file."""
