"""The node agent of Flagplot."""
