"""Reading scripts in a process of their own: what freezes it freezes nothing else."""
