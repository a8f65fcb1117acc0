"""The journal's tables: how rows are written, read and decoded."""
