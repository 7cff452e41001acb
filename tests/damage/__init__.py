"""State files that are damaged on the disk: what a start makes of them."""
