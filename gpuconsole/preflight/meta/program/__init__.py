"""Programs of Paddle's static graph, as its executor runs them."""
