"""The SQLite store: one writing connection, the journal, and read-only queries."""
