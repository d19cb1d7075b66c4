"""Parameters, pages, limits and errors of requests."""
