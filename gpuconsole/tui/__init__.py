"""The console: the only room that imports Textual."""
