"""Harvest beside owners: what lent capacity is taken back, every 100 ms.

Pure control laws, ``(observation, state, params) -> decision``: ``salamander`` (Algorithm 3 of the
Salamander paper, throttles CPU and kills for memory) and ``cuckoo``, its predecessor, which kills
for both. The node's agent observes and enacts; ``tenure.simulation`` replays.
"""
