"""Whether rules can be judged in their stores: derived when it is asked for, stored nowhere."""
