"""Archives of files on their way into containers and out of them."""
