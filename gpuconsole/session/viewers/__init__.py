"""One session's fleet for several viewers."""
