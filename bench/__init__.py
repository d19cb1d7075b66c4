"""Benchmarks: each prints its own table, and checks its results before it prints a number."""
