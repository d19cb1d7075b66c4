"""Forms in which access points' clouds post what they have heard, a file each."""
