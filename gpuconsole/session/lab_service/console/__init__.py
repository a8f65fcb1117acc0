"""The user's end of the lab's queue: a session with the service in between."""
