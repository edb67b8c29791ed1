"""Scheduling as a function: a snapshot and a policy in, a plan out."""
