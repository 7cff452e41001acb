"""The main job of tenure on real engines, ending with a checked report: `python -m demo`."""
