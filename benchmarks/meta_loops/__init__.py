"""Random training loops, by seed: the meta tier's peaks against those of Paddle's own allocator.

`python -m benchmarks.meta_loops --seeds 0:100` draws a loop for each seed, runs it on tensors
without data and on real ones, and prints median, 90th percentile and worst error and every loop
for which less was told than was taken.
"""
