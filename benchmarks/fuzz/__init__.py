"""Random hostile input for everything that reads what others wrote; see `__main__`."""
