"""How long a test waits for something before it says that this does not come."""

PATIENCE_S = 300.0
"""Seconds. A machine that others keep busy may take them; a test measures nothing by this."""
