"""What stands in Redis. Only looked at; needs the package redis (``spooltop[redis]``), imported at the first look."""
