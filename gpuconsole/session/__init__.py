"""The product without a face: CLI, console, web page and tests drive the same `Session`."""
