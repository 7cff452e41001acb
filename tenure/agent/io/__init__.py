"""Files of the kernel, the agent's server, and the daemon's client of it."""
