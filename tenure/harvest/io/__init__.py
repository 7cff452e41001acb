"""What of harvest needs a clock, a process or the network."""
