"""The Docker engine of a host: containers, images, leases, logs."""
