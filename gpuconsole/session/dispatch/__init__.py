"""Jobs that run: launched, followed, and brought to their end."""
