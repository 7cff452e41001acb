"""Who may do what: roles, permits, secrets, and the audit of it."""
