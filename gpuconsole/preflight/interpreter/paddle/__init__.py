"""A model of Paddle: what each part of it does to tensors, memory and time."""
