"""Nodes on and off, probes of unknown capacity, and what nodes can lend to batches."""
