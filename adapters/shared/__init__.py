"""The parts that the packages of all frameworks are built from."""
