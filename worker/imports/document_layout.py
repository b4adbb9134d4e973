"""Lines of documents (chứng từ): one line of the file is one line of a document, whose own columns
stand in its first line, and in the others the same or nothing.
"""

import json
from collections.abc import Sequence
from typing import Any

from worker.imports.cells import words
from worker.imports.columns import Column, choice, code, day, integer, number, phrase
from worker.imports.layout import Gathering, Layout, Problem, Values

TYPES = words(
    ("sale", "bán hàng", "hóa đơn bán hàng", "phiếu bán hàng"),
    ("sale_return", "hàng bán trả lại", "trả lại hàng bán"),
    ("purchase", "mua hàng", "hóa đơn mua hàng", "phiếu nhập mua"),
    ("purchase_return", "trả hàng mua", "trả lại hàng mua"),
    ("transfer", "chuyển kho", "điều chuyển"),
    ("cash_in", "thu tiền", "phiếu thu"),
    ("cash_out", "chi tiền", "phiếu chi"),
    ("manual", "chứng từ nghiệp vụ khác", "nghiệp vụ khác", "hạch toán khác"),
    ("opening", "số dư đầu kỳ", "số dư ban đầu"),
)
SIDES = words(("debit", "nợ", "no", "dr"), ("credit", "có", "co", "cr"))
MOST_LINES = 10_000

OF_DOCUMENT: tuple[Column, ...] = (
    choice("type", TYPES, "Loại chứng từ", "Loại", "document type", required=True),
    code("doc_no", "Số chứng từ", "Số CT", "Số phiếu", "Số hóa đơn", required=True, most=60),
    day("doc_date", "Ngày chứng từ", "Ngày CT", "Ngày hóa đơn", required=True),
    day("posting_date", "Ngày hạch toán", "Ngày ghi sổ"),
    code("brand", "Thương hiệu", "Nhãn hàng"),
    code("store", "Kho", "Mã kho", "Cửa hàng", "Mã cửa hàng"),
    code("to_store", "Kho đến", "Kho nhập", "Kho nhận", "Đến kho"),
    code("party", "Đối tượng", "Mã đối tượng", "Mã khách hàng", "Mã nhà cung cấp", most=60),
    code("account", "Tài khoản", "TK", "TK đối ứng", "TK công nợ"),
    code("currency", "Loại tiền", "Mã ngoại tệ", most=3),
    number("fc_rate", "Tỷ giá", "exchange rate"),
    number("total", "Tổng tiền", "Tổng thanh toán", "Tổng cộng"),
    number("vat_total", "Tổng tiền thuế", "Tổng thuế GTGT"),
    number("fc_total", "Tổng tiền ngoại tệ", "Tổng tiền nguyên tệ"),
    number("fc_vat_total", "Tổng thuế ngoại tệ"),
    phrase("memo", "Diễn giải", "Diễn giải chung"),
    choice("ref_type", TYPES, "Loại chứng từ gốc"),
    code("ref_doc_no", "Số chứng từ gốc", "Chứng từ gốc", most=60),
)
OF_LINE: tuple[Column, ...] = (
    integer("line_no", "Dòng", "Số dòng", "STT dòng", "line", least=1),
    code("item", "Mã hàng", "Mã vật tư", "Mã hàng hóa", "Mã SP", "sku"),
    number("qty", "Số lượng", "SL", "quantity"),
    code("uom", "ĐVT", "Đơn vị tính", "unit"),
    number("net", "Thành tiền", "Tiền hàng", "Số tiền", "amount"),
    number("vat", "Tiền thuế", "Tiền thuế GTGT", "Thuế GTGT"),
    number("vat_rate", "Thuế suất", "Thuế suất GTGT"),
    number("fc_net", "Thành tiền ngoại tệ", "Thành tiền nguyên tệ"),
    number("fc_vat", "Tiền thuế ngoại tệ"),
    choice("side", SIDES, "Nợ/Có", "Bên"),
    code("line_account", "TK dòng", "TK hàng", "Tài khoản dòng"),
    code("line_store", "Kho dòng"),
    code("line_party", "Đối tượng dòng", most=60),
    code("lot_id", "Số lô", "Lô", "lot"),
    integer("ref_line", "Dòng gốc", "Dòng chứng từ gốc", least=1),
    phrase("line_memo", "Diễn giải dòng", "Diễn giải chi tiết"),
)
COLUMNS = (code("company", "Công ty", "Mã công ty"), *OF_DOCUMENT, *OF_LINE)
WHOLE_NUMBERS = frozenset({"line_no", "ref_line"})


def judge(values: Values) -> list[Problem]:
    """All else is the document's to be judged by, as one sent by POST /v1/documents:batch is."""
    if ("ref_type" in values) > ("ref_doc_no" in values):
        return [Problem("ref_doc_no", "is empty beside ref_type")]
    return []


def compose(lines: Sequence[Values]) -> Values | Sequence[Problem]:
    """The document as books.put_documents() takes it."""
    document: dict[str, Any] = {}
    problems = []
    for number_, values in enumerate(lines):
        for column in OF_DOCUMENT:
            said = values.get(column.name)
            if said is None:
                continue
            if document.setdefault(column.name, said) != said:
                rule = f"is {document[column.name]} in an earlier line of the same document"
                problems.append(Problem(column.name, rule, number_))
    if problems:
        return problems
    document["lines"] = [_line_of(values) for values in lines]
    return {
        "type": document["type"],
        "doc_no": document["doc_no"],
        "body": json.dumps(document, ensure_ascii=False),
    }


def _line_of(values: Values) -> dict[str, Any]:
    line: dict[str, Any] = {}
    for column in OF_LINE:
        said = values.get(column.name)
        if said is not None:
            name = column.name.removeprefix("line_") if column.name != "line_no" else "line_no"
            line[name] = int(said) if column.name in WHOLE_NUMBERS else said
    return line


DOCUMENTS = Layout(
    name="documents",
    columns=COLUMNS,
    staged=("type", "doc_no", "lines", "body"),
    table="import_documents",
    judge=judge,
    gathering=Gathering(by=("type", "doc_no"), compose=compose, most=MOST_LINES),
)
