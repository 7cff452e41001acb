"""Blocks of datasets in the tiers of a node, through helper containers."""
