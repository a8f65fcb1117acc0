"""How many devices a job gets when its task leaves that open."""
