"""One attempt of a job: its containers, from the launch to what is written down at the end."""
