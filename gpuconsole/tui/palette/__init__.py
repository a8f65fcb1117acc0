"""The command palette: what it offers, how it matches, its screen."""
