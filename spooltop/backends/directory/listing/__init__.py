"""Lists for the front ends: windows over the packed names of a scan, their order and filter, and one message in full."""
