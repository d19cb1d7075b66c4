"""Checked questions: stores, stretches of time, and calendars."""
