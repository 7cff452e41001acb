"""GENPACK's experiments in virtual time: generations of machines, the real planner, energy."""
