"""Messages to users about their jobs: over HTTP, by mail, on the desktop."""
