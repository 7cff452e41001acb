"""Generation cycles: when they are due, what they plan; ``io`` runs them over Redis and RQ."""
