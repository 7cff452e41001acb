"""Plain data that the rooms share: resources, records, events, effects, errors.

Nothing here does I/O, reads a clock or imports another room. Records are frozen; the core
replaces them, the store writes them, the API shows them.
"""
