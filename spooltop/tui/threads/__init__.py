"""The two threads of the dashboard, one for snapshots and one for changes, and the messages that they send."""
