"""The set-up of a working environment in a fresh clone."""
