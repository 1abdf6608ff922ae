"""Crash matrix: each action on each kind of queue is cut off at each change, and fails at each call. Its only oracle is a census.

``python -m tests.matrix`` runs it and prints how many call sites of changing file operations it reached, and which never.
"""
