"""The script's run: answers about unknown data, how far it goes on, its training steps."""
