"""The instruments of the proofs, shown to find what is planted."""
