"""Keys: the registry, and what users change in it."""
