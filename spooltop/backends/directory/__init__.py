"""A spool in a directory: ``DirectoryReader`` looks at it, an operator changes it. The reader never writes."""
