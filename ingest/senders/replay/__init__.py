"""Replays of real receipts."""
