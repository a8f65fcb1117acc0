"""What a script will take: estimates, and the measurements they rest on."""
