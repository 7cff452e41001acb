"""Statistics in a SQLite file: samples, roll-ups, sketches, profiles of apps."""
