"""Rules in files and in their topic."""
