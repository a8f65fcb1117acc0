"""Models of the built-ins and of Python's standard library."""
