"""The command line: takes arguments and prints text or JSON. Everything else goes through ``control`` or the engine."""
