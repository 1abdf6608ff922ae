"""Rates, histories, verdicts on cursors and problems, worst first: the conclusions that hold for every kind of spool."""
