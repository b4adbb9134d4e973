"""Lines of items: the catalogue, and one unit of packing a line."""

from collections.abc import Mapping

from worker.imports.cells import words
from worker.imports.columns import Column, choice, code, integer, phrase
from worker.imports.layout import Layout, Problem

METHODS = words(
    ("periodic_avg", "bình quân cuối kỳ", "bình quân gia quyền cuối kỳ", "bình quân gia quyền"),
    ("moving_avg", "bình quân tức thời", "bình quân di động", "bình quân sau mỗi lần nhập"),
    ("fifo", "nhập trước xuất trước", "ntxt"),
    ("specific", "đích danh", "thực tế đích danh"),
)
FLAGS = words(
    ("true", "1", "yes", "y", "x", "có", "co", "đúng"),
    ("false", "0", "no", "n", "không", "khong", "sai"),
)
LARGEST_UNIT = 10**12

COLUMNS: tuple[Column, ...] = (
    code("company", "Công ty", "Mã công ty"),
    code("code", "Mã hàng", "Mã vật tư", "Mã hàng hóa", "Mã SP", "sku", "item", required=True),
    phrase("name", "Tên hàng", "Tên vật tư", "Tên hàng hóa", "Tên", "item name", required=True),
    code("base_uom", "ĐVT", "Đơn vị tính", "Đơn vị chính", "unit of measure", required=True),
    integer("qty_scale", "Số lẻ", "Số chữ số thập phân", "decimals", least=0, most=6),
    choice("costing_method", METHODS, "Phương pháp tính giá", "Cách tính giá xuất"),
    choice("lot_tracked", FLAGS, "Theo dõi lô", "Quản lý lô"),
    choice("active", FLAGS, "Đang dùng", "Còn dùng", "Theo dõi"),
    code("item_group", "Nhóm hàng", "Nhóm vật tư", "Nhóm", "group"),
    code("unit", "Đơn vị quy đổi", "ĐVT quy đổi", "packing unit"),
    integer("unit_num", "Tỷ lệ quy đổi", "Số lượng quy đổi", least=1, most=LARGEST_UNIT),
    integer("unit_den", "Mẫu số quy đổi", least=1, most=LARGEST_UNIT),
)
STAGED = (
    "code",
    "name",
    "base_uom",
    "qty_scale",
    "costing_method",
    "lot_tracked",
    "active",
    "item_group",
    "unit",
    "unit_num",
    "unit_den",
)


def judge(values: Mapping[str, str]) -> list[Problem]:
    """What the line's own columns contradict each other in."""
    if ("unit" in values) != ("unit_num" in values):
        missing = "unit_num" if "unit" in values else "unit"
        return [Problem(missing, "is empty: a unit, and how many base units it holds, go together")]
    if "unit_den" in values and "unit" not in values:
        return [Problem("unit", "is empty beside unit_den")]
    if values.get("unit") == values["base_uom"]:
        return [Problem("unit", "is the item's base unit: it needs no conversion")]
    return []


ITEMS = Layout(name="items", columns=COLUMNS, staged=STAGED, table="import_items", judge=judge)
