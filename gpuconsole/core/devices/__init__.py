"""Devices and hosts in use: health, sharing, faults, power, and what runs have shown."""
