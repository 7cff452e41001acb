"""One job, now: the policies that decide about it alone, and what a place costs."""
