"""The whole loop on one year of real receipts: one verb after the other, and their proof.

The verbs are those of the command line.
"""
