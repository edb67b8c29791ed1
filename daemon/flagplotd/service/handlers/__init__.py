"""One file for each request."""
