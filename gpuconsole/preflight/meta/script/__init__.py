"""The script's run: what it is told of unknown data, how far it goes on, and its training steps."""
