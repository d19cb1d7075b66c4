"""Intervals of people counters."""
