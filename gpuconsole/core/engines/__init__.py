"""Jobs in the words of engines: Docker, Slurm and Kubernetes; terminals and files of containers."""
