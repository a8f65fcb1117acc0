"""Hosts that sleep and wake as jobs need them. Loaded only where the inventory has such hosts."""
