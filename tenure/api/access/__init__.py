"""Who may do what: roles, permits, what is seen of the fleet, secrets, and the audit of it."""
