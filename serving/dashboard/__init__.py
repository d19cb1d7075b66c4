"""The dashboard: one page over the same answers as the API, everything it shows served by this
process."""
