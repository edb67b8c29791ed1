"""Launching: a pure recipe, then cgroups, processes and their keeper."""
