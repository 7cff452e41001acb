"""Counters as engines and agents tell them, and samples: what was used between two."""
