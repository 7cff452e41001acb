"""Containers that people submit: requests, placement, and their migrations."""
