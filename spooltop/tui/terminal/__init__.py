"""The terminal: the driver, the thread that writes to it, and how the dashboard ends and comes back."""
