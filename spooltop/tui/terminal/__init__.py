"""The terminal: the driver and its thread that writes, and how the dashboard ends and comes back."""
