"""View families: their kinds, epochs and generations, and the visit rules of stores."""
