"""The values that the interpreter works with, and how they are joined."""
