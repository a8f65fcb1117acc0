"""The domain: pure data and rules. No terminal, no network, no clock but one handed in."""
