"""One try after another of an executor or task, and tombstones of the copies that must not run."""
