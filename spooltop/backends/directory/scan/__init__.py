"""Listing the boxes: bulk reads of names, the schedule of the listings, and everything that follows from names alone."""
