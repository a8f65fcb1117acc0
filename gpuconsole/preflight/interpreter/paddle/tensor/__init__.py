"""`paddle.Tensor` and the functions of `paddle` on tensors."""
