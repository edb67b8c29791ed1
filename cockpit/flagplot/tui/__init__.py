"""The full-screen cockpit (Textual)."""
