"""Chooses devices for a job and says why, or says what it waits for. Pure."""
