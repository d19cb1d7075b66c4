"""What is wrong on purpose: each shows what happens without a guard, and refuses settings that are
no test's (guard.py).

    seam          what the product has there              what is wrong there
    stamp         RowSink.timestamp()                     wall_clock
    sink          RowSink                                 adding
    floor         compute_floor()                         no_floor
    isolation     read_canonical_stream()                 uncommitted
    metadata      Intake.metadata_now()                   no_member
    dedup key     the pages of a Prefix, by window        poor_keys (in laws alone)
    failpoints    Failpoints                              crashing
    what is read  Janitor                                 clock_janitor
"""
