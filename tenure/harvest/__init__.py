"""Harvest: batch work on capacity that its owners leave unused (Salamander)."""
