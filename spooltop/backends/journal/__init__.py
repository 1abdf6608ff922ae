"""Logs of changes that every kind of queue keeps: an intent line before each change, a result line after it, and the audit."""
