"""Elements of every drawing: spans of styled text, signs, names cut where they differ, and the part of a line that changed."""
