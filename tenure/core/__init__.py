"""The state of the fleet and its rules: events in, effects out (sans-IO, deterministic)."""
