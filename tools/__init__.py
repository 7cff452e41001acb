"""What developers run: documents, mutants, wheels."""
