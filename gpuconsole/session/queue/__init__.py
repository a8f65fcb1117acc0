"""The jobs that wait: their order, why they wait, and when they should start."""
