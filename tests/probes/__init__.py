"""Small kinds of the tests: each misbehaves in one way, or leaves countable effects."""
