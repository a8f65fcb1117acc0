"""Predicts the memory of a Paddle script from its source. Parses, never executes."""
