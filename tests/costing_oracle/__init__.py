"""An independent judge of the cost engines: slow, exact, and written from the rules alone.

Nothing here imports a formula of `worker.costing`; it knows its data model and nothing else.
"""
