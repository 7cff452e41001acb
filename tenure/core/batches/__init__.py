"""Batches: submission, the questions to the holistic planner, and what came of their plans."""
