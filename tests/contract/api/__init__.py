"""Tests of serving: contract api."""
