"""The simulated fleet: the real core among engines, agents and people that fail, judged by laws."""
