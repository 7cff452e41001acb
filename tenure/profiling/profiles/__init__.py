"""What containers use in the long run: percentiles, sketches, histories, apps."""
