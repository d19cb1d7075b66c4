"""The HTTP server of all applications, with its limits."""
