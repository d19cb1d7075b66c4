"""POSLog 6 (ARTS, now OMG Retail): what its words mean, and its transactions as messages."""
