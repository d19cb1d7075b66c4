"""From a fresh clone to a working environment; standard library only, run by any Python 3.11 or
3.12."""
