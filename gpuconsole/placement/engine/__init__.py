"""One pass over the queue: the board of devices, who may use which, scores and search."""
