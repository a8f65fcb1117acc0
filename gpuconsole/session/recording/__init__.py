"""What a session saw: recorded, and looked at again."""
