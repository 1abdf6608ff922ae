"""Draws what changes the queue: the forms, the plan, its result, and the operations that were done."""
