"""Commands that run the console or a service of it."""
