"""What a node watches of itself, so that it drains before it harms jobs."""
