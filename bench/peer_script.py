"""Runs in the peer's own environment: load the movements into Tryton, time its recompute, tell.

`peer_script.py CONFIG DATABASE MOVEMENTS.csv average|fifo`; JSON on stdout. Products are made
through Tryton; the movements are loaded by SQL as done, as if posted long ago. The clock runs from
the first call of Product.recompute_cost_price to the commit, called as the server itself calls it:
through Tryton's ORM and its validation, without the access checks of a user's session.
"""

import csv
import json
import sys
from collections import defaultdict
from datetime import date
from decimal import Decimal
from pathlib import Path
from time import monotonic
from typing import Any

from trytond import config
from trytond.pool import Pool
from trytond.transaction import Transaction

STORES = 5
HALF = Decimal("0.00005")  # the most that a price rounded to four decimals is off
INSERT = """
    INSERT INTO stock_move (company, product, unit, quantity, internal_quantity, fifo_quantity,
           from_location, to_location, effective_date, state, unit_price, currency, cost_price,
           unit_price_updated, create_uid, create_date)
    VALUES (%s, %s, %s, %s, %s, 0, %s, %s, %s, 'done', %s, %s, %s, false, 0, now())"""


def main() -> None:
    """Run the command line."""
    settings, database, movements, method = sys.argv[1:]
    config.update_etc(settings)
    Pool.start()
    pool = Pool(database)
    with Transaction().start(database, 0):
        pool.init()
    with Path(movements).open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    with Transaction().start(database, 0) as transaction:
        company = _company(pool)
        transaction.commit()
    with Transaction().start(database, 0, context={"company": company}) as transaction:
        products = _load(pool, company, rows, method)
        transaction.commit()
    with Transaction().start(database, 0, context={"company": company}) as transaction:
        began = monotonic()
        model = pool.get("product.product")
        model.recompute_cost_price(model.browse(list(products.values())))
        transaction.commit()
        seconds = monotonic() - began
    with Transaction().start(database, 0, context={"company": company}):
        told = {"seconds": round(seconds, 3), "closing": _closing(pool, products, rows, method)}
    json.dump(told, sys.stdout)


def _company(pool: Any) -> int:
    found = pool.get("company.company").search([])
    if found:
        return int(found[0].id)
    currency = pool.get("currency.currency")(name="VND", code="VND", symbol="d", digits=4)
    currency.rounding = Decimal("0.0001")
    currency.save()
    party = pool.get("party.party")(name="Bench")
    party.save()
    company = pool.get("company.company")(party=party, currency=currency)
    company.save()
    return int(company.id)


def _load(pool: Any, company: int, rows: list[dict[str, str]], method: str) -> dict[str, int]:
    location = pool.get("stock.location")
    (unit,) = pool.get("product.uom").search([("symbol", "=", "u")])
    (storage,) = location.search([("code", "=", "STO")])
    (supplier,) = location.search([("code", "=", "SUP")])
    (customer,) = location.search([("code", "=", "CUS")])
    stores = [
        location(name=f"S{number}", code=f"S{number}", type="storage", parent=storage)
        for number in range(STORES)
    ]
    location.save(stores)
    currency = pool.get("company.company")(company).currency.id
    template = pool.get("product.template")
    products: dict[str, int] = {}
    for item in sorted({row["item"] for row in rows}, key=int):
        made = template(name=f"Item {item}", type="goods", default_uom=unit)
        made.cost_price_method = method
        made.products = [pool.get("product.product")()]
        made.save()
        products[item] = int(made.products[0].id)
    cursor = Transaction().connection.cursor()
    places = {
        "receipt": lambda row: (supplier.id, stores[int(row["store"])].id),
        "issue": lambda row: (stores[int(row["store"])].id, customer.id),
        "transfer": lambda row: (stores[int(row["store"])].id, stores[int(row["to_store"])].id),
    }
    for row in rows:
        quantity = int(row["quantity"])
        crosses = row["kind"] != "transfer"
        # What a sale is sold for is asked for and costs nothing.
        price = Decimal(row["price"] or 10**4).scaleb(-4) if crosses else None
        cursor.execute(
            INSERT,
            (
                company,
                products[row["item"]],
                unit.id,
                quantity,
                quantity,
                *places[row["kind"]](row),
                date.fromisoformat(row["day"]),
                price,
                currency if crosses else None,
                Decimal(0) if crosses else None,
            ),
        )
    return products


def _closing(
    pool: Any, products: dict[str, int], rows: list[dict[str, str]], method: str
) -> dict[str, list[str]]:
    """Of each item quantity, value, and how far its roundings may have moved that value."""
    model = pool.get("product.product")
    cursor = Transaction().connection.cursor()
    cursor.execute(
        """SELECT m.product, sum(CASE WHEN t.type = 'storage' THEN m.quantity ELSE 0 END)
                             - sum(CASE WHEN f.type = 'storage' THEN m.quantity ELSE 0 END)
             FROM stock_move m
             JOIN stock_location f ON f.id = m.from_location
             JOIN stock_location t ON t.id = m.to_location
            WHERE m.product = ANY (%s) GROUP BY m.product""",
        (list(products.values()),),
    )
    held = {product: Decimal(str(quantity)) for product, quantity in cursor.fetchall()}
    moved = _roundings(rows) if method == "fifo" else {}
    told: dict[str, list[str]] = {}
    for item, number in products.items():
        quantity = held[number]
        value = quantity * model(number).cost_price
        told[item] = [str(quantity), str(value), str(HALF * (quantity + moved.get(item, 0)))]
    return told


def _roundings(rows: list[dict[str, str]]) -> dict[str, Decimal]:
    """By FIFO a day's price is rounded for what goes out, and twice for what stays."""
    days: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(lambda: [0, 0]))
    for row in rows:
        if row["kind"] != "transfer":
            days[row["item"]][row["day"]][row["kind"] == "issue"] += int(row["quantity"])
    moved: dict[str, Decimal] = {}
    for item, of_item in days.items():
        held = total = 0
        for day in sorted(of_item):
            into, out = of_item[day]
            held += into
            total += held + out
            held -= out
            total += held
        moved[item] = Decimal(total)
    return moved


if __name__ == "__main__":
    main()
