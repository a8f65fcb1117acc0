"""HTTP on a unix socket: who asks, how much, and what a request carries."""
