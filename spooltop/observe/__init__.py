"""Floor 2: what holds for every kind: rates, histories, verdicts on cursors, problems worst first."""
