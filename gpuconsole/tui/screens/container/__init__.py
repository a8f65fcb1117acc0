"""Screens of containers: all of them, the log of one, a command in one."""
