"""A third small world: a group, its children, its counter row, and the join that waits for all.

What the first world has shown (fences, effects, the relay) is taken for granted here.
"""
