"""The tiers of an estimate: reading a script, a formula, measured runs, what was seen before."""
