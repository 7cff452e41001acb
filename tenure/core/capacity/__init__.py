"""Free room, what it costs and what policies see of it: read from the records, never written."""
