"""The whole loop on one year of real receipts: the verbs of the command line, one after the
other, and their proof."""
