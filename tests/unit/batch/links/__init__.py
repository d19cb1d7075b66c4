"""Links between records of different days."""
