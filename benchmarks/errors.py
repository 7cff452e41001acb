"""What goes wrong in a measurement."""


class BenchError(Exception):
    """The figure could not be taken; says why, for people."""
