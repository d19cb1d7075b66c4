"""Stock beyond the views: its movements, and the systems that they are sent to."""
