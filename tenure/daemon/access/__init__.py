"""Who asks: tokens, and roles by certificate and group."""
