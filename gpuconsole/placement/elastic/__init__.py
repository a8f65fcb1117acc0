"""Which sleeping hosts are worth waking, and which images are fetched ahead."""
