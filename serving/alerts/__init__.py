"""Alerts as processes: they read the current state from the views and announce it once."""
