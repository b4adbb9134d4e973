"""The columns of a pool's result: what came in and what went out, by flow.

opening + all of IN = all of OUT + closing, in quantity; in value what is in BESIDE goes out, too.
"""

IN = ("receipt", "gain", "sales_return", "transfer_in")
OUT = ("issue", "usage", "purchase_return", "transfer_out")
BESIDE = ("rounding", "true_up")
FLOWS = ("opening", *IN, *OUT, "closing")
