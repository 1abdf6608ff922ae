"""Questions to a server with streams, their answers, and the streams and groups that an address names. Nothing here writes."""
