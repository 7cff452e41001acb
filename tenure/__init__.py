"""tenure: an orchestration daemon for fleets of Docker hosts."""

__version__ = "0.1.0"
