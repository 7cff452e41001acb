"""The composition root: the core with real engines, a real store, Redis and the API around it."""
