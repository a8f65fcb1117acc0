"""Device-hours, use, energy and cost of jobs: measured while they run, added up for reports."""
