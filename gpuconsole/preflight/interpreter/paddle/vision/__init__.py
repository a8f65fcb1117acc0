"""Pictures, transforms and the operators of detectors."""
