"""Request bodies and queries: one pydantic model validates, names the faults and documents."""
