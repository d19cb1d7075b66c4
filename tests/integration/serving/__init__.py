"""Tests of serving: integration serving."""
