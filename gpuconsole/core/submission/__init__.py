"""What a job is submitted with: variables, limits, sweeps, and the folder that travels."""
