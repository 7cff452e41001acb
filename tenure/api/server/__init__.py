"""What takes connections and speaks HTTP, whatever is asked."""
