"""Trident's cluster in virtual time: jobs over blocks in tiers, by the product's own kernels."""
