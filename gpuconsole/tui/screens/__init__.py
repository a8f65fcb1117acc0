"""Screens: each draws one picture and turns keys into calls of the session."""
