"""What is true of a whole run, in words: the sheet with the proof of an export."""

from collections.abc import Mapping
from decimal import Decimal

from sqlalchemy import RowMapping

from shared.costs.flows import BESIDE, IN, OUT
from shared.costs.shown import scaled

Row = RowMapping
# A number is one where somebody may want to add it up; a code that looks like one is text.
Fact = tuple[str, str | Decimal]
TOTALS: Mapping[str, str] = {
    "opening": "Opening (Tồn đầu kỳ)",
    "receipt": "Received, made (Nhập mua, sản xuất)",
    "gain": "Found (Nhập thừa, điều chỉnh tăng)",
    "sales_return": "Sales returned (Hàng bán trả lại)",
    "transfer_in": "From other pools (Nhập điều chuyển)",
    "issue": "Sold: cost of sales (Giá vốn hàng bán)",
    "usage": "Used, short (Xuất dùng, sản xuất, thiếu)",
    "purchase_return": "Returned to supplier (Xuất trả nhà cung cấp)",
    "transfer_out": "To other pools (Xuất điều chuyển)",
    "rounding": "Rounding (Chênh lệch làm tròn)",
    "true_up": "True-up (Chênh lệch xuất âm kho)",
    "closing": "Closing (Tồn cuối kỳ)",
    "variance": "Variance beside stock (Chênh lệch ngoài tồn kho)",
}
CHECKS: Mapping[str, str] = {
    "value_broken": "I1 Pools whose opening + in is not out + closing, in value",
    "qty_broken": "I2 Pools whose opening + in is not out + closing, in quantity",
    "transfers_broken": "I3 Items of which pools sent what no pool got",
    "drained_broken": "I4 Pools without quantity that have value left",
}


def facts_of(run: Row, counts: Row | None, proven: Row | None, *, brand: str | None) -> list[Fact]:
    """Pairs of a name and what is so; of one `brand` only where there is one."""
    facts: list[Fact] = [
        ("Cost run (Lần tính giá)", str(run["id"])),
        ("Company (Công ty)", run["company"]),
        ("Brand (Thương hiệu)", brand or run["brand"] or "all (tất cả)"),
        ("Period (Kỳ)", f"{run['period']}: {run['starts_on']} – {run['ends_on']}"),
        ("Status", run["status"]),
        ("Method (Phương pháp)", run["method"]),
        ("Pools (Kho tính giá)", run["pool_policy"]),
        ("Residues (Chênh lệch làm tròn)", run["residue_policy"]),
        ("Negative stock (Xuất âm kho)", run["negative"]),
        ("Activated at", str(run["activated_at"])),
        ("Currency (Tiền tệ)", run["currency"]),
    ]
    if counts is not None:
        facts += [
            ("Items (Mã hàng)", Decimal(counts["total"])),
            ("Items that could not be costed (Lỗi)", Decimal(counts["failed"])),
            ("Movements", Decimal(counts["movements"])),
        ]
    if proven is not None:
        facts += _proof(run, proven, whole=brand is None)
    facts += [
        ("Checksum, SHA-256 of all results", run["checksum"].hex() if run["checksum"] else ""),
        ("Snapshot", run["snapshot"]),
        ("Code version", str(run["code_version"] or "")),
    ]
    return facts


def _proof(run: Row, proven: Row, *, whole: bool) -> list[Fact]:
    digits = run["minor_digits"]
    values = {name: int(proven[f"v_{name}"]) for name in TOTALS}
    facts: list[Fact] = [
        (words, Decimal(scaled(values[name], digits))) for name, words in TOTALS.items()
    ]
    came = sum(values[name] for name in ("opening", *IN))
    went = sum(values[name] for name in (*OUT, *BESIDE, "closing"))
    facts += [
        ("Opening + in (Tồn đầu + Nhập)", Decimal(scaled(came, digits))),
        ("Out + closing (Xuất + Tồn cuối)", Decimal(scaled(went, digits))),
    ]
    # A part of the brands may have sent more to the others than it got.
    checks = [name for name in CHECKS if whole or name != "transfers_broken"]
    facts += [(CHECKS[name], Decimal(proven[name])) for name in checks]
    return facts
