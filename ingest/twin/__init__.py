"""The store twin: simulated stores whose truth is known, and what their sensors send of it."""
