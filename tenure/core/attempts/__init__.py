"""Attempts of executors, tasks and services, and tombstones of copies that must not run again."""
