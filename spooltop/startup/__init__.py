"""What runs before the dashboard: the splash, and a process apart where a file system may hang."""
