"""Containers of one engine: listed, created, started, ended, removed; their logs."""
