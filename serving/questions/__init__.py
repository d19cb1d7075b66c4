"""Checked questions: metrics, stores, stretches of time, and calendars."""
