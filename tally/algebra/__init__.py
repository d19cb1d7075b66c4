"""The algebra of the views: parts that join in any order, the register that keeps the most."""
