"""What the console tells Prometheus: a table of metrics, read from one picture of the lab."""
