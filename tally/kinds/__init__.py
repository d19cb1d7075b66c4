"""The kinds of families: how each merges a window of two layers, and joins many windows."""
