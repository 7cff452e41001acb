"""What concerns the whole fleet: configuration, drains, runs of cycles, restores, clock steps."""
