"""Why a place was chosen or rejected, and why a job waits, as sentences."""
