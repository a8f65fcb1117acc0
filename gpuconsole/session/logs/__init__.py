"""Logs of jobs: copied from hosts, followed, indexed, merged, searched."""
