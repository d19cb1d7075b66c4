"""The cells of an answer, with coverage and dimensions."""
