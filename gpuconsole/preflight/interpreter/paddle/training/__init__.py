"""What trains: optimizers, mixed precision, `paddle.Model`, static programs."""
