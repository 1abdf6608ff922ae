"""Parsers for tables of the kernel below ``/proc``. Pure."""
