"""Stops: what an operator has stopped beside whole queues, as SQL over whatever names it.

A kind may be paused, and the books of a company, or of one of its brands, frozen. A frozen brand
stops the jobs of that brand and those of the whole company, which write that brand's books too.
"""


def kind_paused(of: str) -> str:
    """A predicate over `of`, which has a `kind`: an operator has paused it."""
    return f"""EXISTS (
            SELECT FROM chot.kinds ck WHERE ck.name = {of}.kind AND ck.paused)"""


def covers_books(of: str) -> str:
    """A predicate over `of` and a freeze `cf`: it covers books that `of` would write.

    Of the whole company is what has no brand (NULL, or '' in a lane).
    """
    return f"""cf.company = {of}.company
               AND (cf.brand IS NULL OR coalesce({of}.brand, '') IN ('', cf.brand))"""


def books_frozen(of: str) -> str:
    """A predicate over `of`, which has `company` and `brand`: some freeze covers its books."""
    return f"""EXISTS (
            SELECT FROM chot.freezes cf
             WHERE {covers_books(of)})"""
