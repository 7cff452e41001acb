"""What the core holds: records, indexes of them, timers, and the bounds of one transaction."""
