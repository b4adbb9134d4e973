"""Planted bugs: each is killed by a named test, or the tests prove nothing."""
