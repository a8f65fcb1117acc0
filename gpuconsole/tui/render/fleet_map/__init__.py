"""The lines of the fleet map."""
