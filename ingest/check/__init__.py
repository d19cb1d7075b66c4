"""What a body would count as, told without sending it."""
