"""From a task to queued jobs."""
