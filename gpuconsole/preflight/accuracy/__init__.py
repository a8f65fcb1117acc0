"""How good estimates have been, and what that says of the next."""
