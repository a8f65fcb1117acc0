"""What runs beside the screens: background work, signals, the terminal, notifications."""
