"""Filters and selections: how they are written, which facts they ask for, and what they match. Pure."""
