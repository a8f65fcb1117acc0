"""Search for weights of `rl_based` with a compiled copy of the simulation."""
