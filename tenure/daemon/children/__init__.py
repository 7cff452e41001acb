"""What computes in a child process: slow decisions, the planner of batches, kernels."""
