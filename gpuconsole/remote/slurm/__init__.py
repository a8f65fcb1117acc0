"""Slurm, reached through its commands on a login node: the nodes as hosts, runs as containers."""
