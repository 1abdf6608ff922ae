"""Lock files and ticket queues: who holds them, who waits, and the removal of those that nobody holds any more."""
