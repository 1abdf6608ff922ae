"""Startup before the dashboard: the splash, and a supervisor process for file systems that may hang."""
