"""Paddle's backward pass: nodes and engine, mixed precision, functions under to_static."""
