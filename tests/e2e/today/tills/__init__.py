"""End-to-end tests: today tills."""
