"""Answers: both layers merged at read, the HTTP API and the dashboard."""
