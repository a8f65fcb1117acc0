"""Which sleeping hosts are worth waking. Loaded only where the inventory has such hosts."""
