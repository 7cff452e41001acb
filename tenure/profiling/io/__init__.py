"""The sampler and the stores of statistics."""
