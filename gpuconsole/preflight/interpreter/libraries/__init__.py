"""Models of other libraries, and what finds a library by its name."""
