"""Rules of the code as a whole: who may import whom, sizes, what lies in the root folder."""
