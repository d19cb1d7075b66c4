"""What is wrong on purpose: each shows what happens without a guard."""
