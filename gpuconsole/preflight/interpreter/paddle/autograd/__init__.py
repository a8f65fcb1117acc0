"""Backward passes: their order, their modes, recompute."""
