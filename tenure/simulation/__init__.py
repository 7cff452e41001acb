"""The fleet simulator: the real core over simulated engines, in virtual time, with faults."""
