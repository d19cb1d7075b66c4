"""One story of the whole loop; a newcomer and CI run it."""
