"""One request: its turn, its body, the question to the core, and the sending of long answers."""
