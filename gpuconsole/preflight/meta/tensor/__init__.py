"""The class that stands for Paddle's tensor class: its constructor, methods and operators."""
