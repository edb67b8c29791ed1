"""The cockpit and the command line of Flagplot."""
