"""Deadline jobs: admission, the queue and its plan, slow decisions, and their executors' inputs."""
