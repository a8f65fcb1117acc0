"""The trained correction of the weighted policy: features, weights, and how it is trained."""
