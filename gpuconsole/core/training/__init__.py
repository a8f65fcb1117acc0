"""What a training run says of itself: its log, its curves, and rules on them."""
