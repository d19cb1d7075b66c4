"""Alert rules as processes read them: from files, and from their topic."""
