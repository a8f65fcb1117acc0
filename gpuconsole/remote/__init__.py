"""Real hosts: SSH links, the agent that runs on them, and their container engines."""
