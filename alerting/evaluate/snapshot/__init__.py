"""The views of one moment, as rules read them."""
