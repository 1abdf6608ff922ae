"""Directory queues of other programs, each described by one TOML file (its layout) and read by one interpreter.

``definition`` is a layout as a value, with its templates and units; ``load`` finds the files, checks each and makes one of it;
``sort_files`` tells which layout a directory has, and puts its files into boxes; ``verdicts`` judges who holds them.
"""
