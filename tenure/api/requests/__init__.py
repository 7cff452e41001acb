"""One request: its body, who asks the core what, and how long answers are sent."""
