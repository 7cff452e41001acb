"""InfluxDB as the statistics store, with a spool before it."""
