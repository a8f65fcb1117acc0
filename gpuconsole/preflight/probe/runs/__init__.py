"""Several runs of a script: its project's copy, what they read, may take and have in common."""
