"""Facts about the place that a target is in, for ``spooltop doctor``, and a directory in which something can be tried."""
