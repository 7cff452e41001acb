"""From an event to its effect: our clock, the one consumer of the inbox, the interpreter."""
