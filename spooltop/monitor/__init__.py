"""Reads a queue for a monitoring system, through the same control as the dashboard."""
