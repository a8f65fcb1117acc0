"""What a lab allows: quotas, windows, fair share, and which image runs where."""
