"""Hold preflight's estimates against what real Paddle runs measured."""
