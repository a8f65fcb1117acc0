"""What one run of a script is asked, where it is, and what it has recorded."""
