"""The doctor: what it examines, and what it finds of the host, the storage and the spool."""
