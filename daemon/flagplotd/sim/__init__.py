"""Replays of workload traces through the scheduler."""
