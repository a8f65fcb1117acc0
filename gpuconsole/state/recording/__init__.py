"""Recordings: what a session saw, in small files from which any moment can be opened."""
