"""The algebra of the views: parts that merge in any order, and the register that keeps the most."""
