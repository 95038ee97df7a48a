"""Where cached state lies and how it moves."""
