"""Directory queues of other programs, each described by one TOML file (its layout) and read by one interpreter.

``templates`` and ``units`` say what a name means, ``layout`` is a description as a value, ``load`` checks a file and makes one of
it, ``library`` finds the files, ``detect`` tells which layout a directory has, ``sort_files`` puts its files into boxes.
"""
