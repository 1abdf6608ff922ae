"""The record of behaviour: what commands and the dashboard do in worlds made for it, compared with what they did before."""
