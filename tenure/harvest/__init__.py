"""Harvest: what regular use will leave free, and batch work planned into it (Salamander)."""
