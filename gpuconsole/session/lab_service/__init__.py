"""One queue for a lab: the service that owns it, and the sessions of those who use it."""
