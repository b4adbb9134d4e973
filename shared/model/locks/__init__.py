"""A second small world: jobs with business locks, claimers, exits, and who waits for whom.

What the first world has shown (fences, effects, the relay) is taken for granted here.
"""
