"""The SSH server: keys, sessions, channels."""
