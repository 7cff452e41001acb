"""What each endpoint does with a checked call."""
