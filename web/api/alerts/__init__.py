"""The routes for alerts and rules."""
