"""What the API asks for: the backend, views of the records, pasts, uploads."""
