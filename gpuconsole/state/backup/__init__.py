"""Backups of the journal, copies for a standby, and what a restored one does not know."""
