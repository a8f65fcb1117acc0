"""A process on this machine with few rights: what it sees, what it may use."""
