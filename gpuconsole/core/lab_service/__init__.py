"""The lab's queue as a service: rights of its users, its audit, messages."""
