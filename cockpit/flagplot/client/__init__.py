"""The connection to a controller, calls over it, and the local mirror of the cluster."""
