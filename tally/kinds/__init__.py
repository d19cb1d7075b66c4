"""The kinds of families: what each makes of a window that two layers hold, and of many windows."""
