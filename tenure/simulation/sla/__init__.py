"""The policy simulator: workloads of deadline jobs on clusters, by the product's own kernels."""
