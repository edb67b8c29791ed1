"""View models: rows, cells and words made from the mirror; no widget."""
