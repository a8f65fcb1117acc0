"""The console in a browser: who may come in, the page, and one process for each viewer."""
