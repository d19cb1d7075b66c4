"""Stock of articles, and sales by article."""
