"""What is known of a tensor's data: small tensors, ranges of numbers, settled lengths."""
