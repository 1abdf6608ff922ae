"""Programs that other interpreters run: each makes one library do what a line of JSON asks, and answers with a line."""
