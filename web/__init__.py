"""The HTTP API and the dashboard: one application."""
