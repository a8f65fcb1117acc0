"""Plots as lines of styled text."""
