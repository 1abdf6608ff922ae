"""Cursors: what one is, how it is read, watched, judged, set and drawn, and its part of the command line."""
