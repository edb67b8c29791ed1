"""Printing tables and JSON."""
