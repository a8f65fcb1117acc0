"""What survives: the journal of jobs and attempts."""
