"""The metric catalogue as formulas over the parts of families."""
