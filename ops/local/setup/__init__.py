"""From a fresh clone to a working environment.

Standard library only, run by any Python 3.11 or 3.12.
"""
