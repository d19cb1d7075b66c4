"""The set-up of a working environment in a fresh clone.

It uses the standard library only, and runs with any Python 3.11 or 3.12.
"""
