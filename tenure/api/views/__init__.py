"""The API's answers: each an annotated type, from which its JSON and its OpenAPI schema come."""
