"""The controller of Flagplot."""
