"""How a container moves: eligibility, admission, steps with their undo, and records."""
