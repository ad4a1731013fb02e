"""What adapters of all frameworks share: the parts that a framework's package is built of."""
