"""The producer's side of a spool: ids, keys, drafts in ``tmp``, and their delivery."""
