"""Python itself: statements, expressions, calls, imports."""
