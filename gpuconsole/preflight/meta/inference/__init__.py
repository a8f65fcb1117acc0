"""What an operator makes of shapes and types, what its gradient reads, what its kernel takes."""
