"""Reports what a body would count as, without sending it."""
