"""Incidents: found, remembered, and reported."""
