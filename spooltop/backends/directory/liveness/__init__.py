"""Determines which processes still run, and what follows for claims, drafts and open files. Nothing is judged by age alone."""
