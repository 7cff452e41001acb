"""Datasets: put, split, copied, prefetched into memory, repaired and removed."""
