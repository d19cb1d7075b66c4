"""What the routes share: parameters, refusals, cursors and errors."""
