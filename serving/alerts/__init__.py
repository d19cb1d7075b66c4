"""Alerts as processes: what is true is read from the views, and told once."""
