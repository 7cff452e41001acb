"""Durable records, public events and kept logs in one SQLite file (docs/architecture.md).

``store.py`` is the whole interface; ``schema.py`` holds the numbered steps of the schema,
``codec.py`` turns records into JSON and back, ``lock.py`` keeps a second daemon out.
"""
