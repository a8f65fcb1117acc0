"""The corpus of the wild: training code of public repositories; see `__main__`."""
