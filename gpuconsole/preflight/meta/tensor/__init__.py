"""The class in place of Paddle's tensor class: its constructor, methods and operators."""
