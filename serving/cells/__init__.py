"""The cells of an answer, with coverage, dimensions and quality."""
