"""What cost runs have found, read for people: by the api page by page, by exports table by table.

A run that is not active any more has no rows left; whoever has read some asks for its status in a
later statement of the same transaction, and gives the rows out only if it still spoke then.
"""
