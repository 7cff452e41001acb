"""The queue over time: its state, what serves it, and the event loops."""
