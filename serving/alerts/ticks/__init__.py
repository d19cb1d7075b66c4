"""Ticks: records of how far the data has been read, which give alerts their time."""
