"""Ports of jobs' containers, reached from this machine."""
