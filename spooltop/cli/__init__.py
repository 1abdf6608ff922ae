"""Floor 4: the command line. Arguments in, text and JSON out; everything else goes through ``control``, or the engine."""
