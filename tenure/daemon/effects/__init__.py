"""What carries out effects: hands on engines, agents and controllers, files, cycles."""
