"""Plans of batches: what searches for them, and what bounds them."""
