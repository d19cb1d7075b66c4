"""What an event is: its canonical form, identity, money, partition, and the rules of receipts."""
