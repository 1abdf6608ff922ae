"""Operations for every kind of queue: plan, confirmation, apply in batches, result, undo."""
