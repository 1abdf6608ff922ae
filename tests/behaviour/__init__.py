"""The record of behaviour: what commands and the dashboard do in worlds that are made for it, compared with what they did before."""
