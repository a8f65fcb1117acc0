"""When jobs end and start, what is free, and what would change if."""
