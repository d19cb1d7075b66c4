"""Tests of one module at a time; no process, no network."""
