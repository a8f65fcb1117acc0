"""Widgets: they are handed facts and post messages; none of them reaches for the session."""
