"""Which tokens of which requests are computed in the next step."""
