"""The training steps of a script: its batches, loops and loaders, what its allocator counts."""
