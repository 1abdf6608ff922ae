"""The two threads of the dashboard, the one that looks and the one that changes, and the messages that they send."""
