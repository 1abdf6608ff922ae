"""Floor 2: what holds for every kind: plan, confirm grammar, apply in batches, result, undo."""
