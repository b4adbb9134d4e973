"""An explicit-state model of the protocol: explored whole, broken on purpose, walked by hand.

Nothing here talks to a database or a queue; see docs/model.md.
"""
