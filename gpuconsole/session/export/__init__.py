"""A job for other engines: a docker command, a Slurm script, Kubernetes objects."""
