"""The operators: what each saves, needs for a moment, and computes."""
