"""Tests of serving: unit serving."""
