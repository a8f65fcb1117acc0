"""Files that travel: the project of a job, archives, results."""
