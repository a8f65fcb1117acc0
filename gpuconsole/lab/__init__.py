"""The simulated lab behind `gpuconsole demo`: hosts that move, an engine that runs nothing."""
