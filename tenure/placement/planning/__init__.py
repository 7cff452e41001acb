"""Policy ``tenure``: a plan of the whole queue."""
