"""Commands before and at the start of a job: estimates, submission, sessions, simulation."""
