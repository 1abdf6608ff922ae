"""Draws what is on every screen: the header with how fresh the figures are, notices, and the frame of a panel on top."""
