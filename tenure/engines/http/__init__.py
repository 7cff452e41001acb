"""HTTP to one engine: how it is reached, calls and streams, and what its answers mean."""
