"""Startup before anything is loaded: a supervisor process for file systems that may hang."""
