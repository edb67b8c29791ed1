"""Job scripts: directives, options and their values (pure)."""
