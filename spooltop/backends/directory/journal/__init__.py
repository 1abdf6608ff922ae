"""The journal of messages: batches of moves, their outcomes, and their summaries."""
