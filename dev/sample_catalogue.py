"""The sample company: an invented chain of 50 shops, its four brands and what they sell."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, product

COMPANY_NAME = "Công ty CP Thương mại Bốn Mùa"
ITEMS = 2_000
SHARED_ITEMS = 80

BRANDS = {
    "LUA": "Lúa Vàng Thực phẩm",
    "NHA": "Nhà Tre Gia dụng",
    "MAY": "Hiệu sách Mây",
    "ONG": "Bé Ong Mẹ và Bé",
}

# Shop by shop: street and place; the brand takes as many as it has.
PLACES = (
    ("LUA", "Nguyễn Trãi", "Q.5, TP.HCM"),
    ("LUA", "Lê Văn Sỹ", "Q.3, TP.HCM"),
    ("LUA", "Quang Trung", "Gò Vấp, TP.HCM"),
    ("LUA", "Phan Xích Long", "Phú Nhuận, TP.HCM"),
    ("LUA", "Võ Văn Ngân", "Thủ Đức, TP.HCM"),
    ("LUA", "Cầu Giấy", "Hà Nội"),
    ("LUA", "Kim Mã", "Ba Đình, Hà Nội"),
    ("LUA", "Trần Duy Hưng", "Hà Nội"),
    ("LUA", "Nguyễn Văn Linh", "Đà Nẵng"),
    ("LUA", "Hùng Vương", "Huế"),
    ("LUA", "30 Tháng 4", "Cần Thơ"),
    ("LUA", "Lạch Tray", "Hải Phòng"),
    ("LUA", "Quang Trung", "Vinh"),
    ("LUA", "Đại lộ Bình Dương", "Thủ Dầu Một"),
    ("NHA", "Hai Bà Trưng", "Q.1, TP.HCM"),
    ("NHA", "Nguyễn Đình Chiểu", "Q.3, TP.HCM"),
    ("NHA", "Xa lộ Hà Nội", "Thủ Đức, TP.HCM"),
    ("NHA", "Cộng Hoà", "Tân Bình, TP.HCM"),
    ("NHA", "Bà Triệu", "Hà Nội"),
    ("NHA", "Nguyễn Trãi", "Thanh Xuân, Hà Nội"),
    ("NHA", "Long Biên", "Hà Nội"),
    ("NHA", "Lê Duẩn", "Đà Nẵng"),
    ("NHA", "Trần Phú", "Nha Trang"),
    ("NHA", "Nguyễn Huệ", "Quy Nhơn"),
    ("NHA", "Mậu Thân", "Cần Thơ"),
    ("NHA", "Lê Hồng Phong", "Hải Phòng"),
    ("NHA", "Phạm Văn Thuận", "Biên Hoà"),
    ("MAY", "Đinh Tiên Hoàng", "Q.1, TP.HCM"),
    ("MAY", "Nguyễn Văn Cừ", "Q.5, TP.HCM"),
    ("MAY", "Nguyễn Thị Thập", "Q.7, TP.HCM"),
    ("MAY", "Kha Vạn Cân", "Thủ Đức, TP.HCM"),
    ("MAY", "Tràng Tiền", "Hà Nội"),
    ("MAY", "Xuân Thuỷ", "Hà Nội"),
    ("MAY", "Láng", "Hà Nội"),
    ("MAY", "Bạch Đằng", "Đà Nẵng"),
    ("MAY", "Lê Lợi", "Huế"),
    ("MAY", "Hoà Bình", "Cần Thơ"),
    ("MAY", "Lý Tự Trọng", "Đà Lạt"),
    ("MAY", "Hùng Vương", "Việt Trì"),
    ("ONG", "Lê Quang Định", "Bình Thạnh, TP.HCM"),
    ("ONG", "Ba Tháng Hai", "Q.10, TP.HCM"),
    ("ONG", "Tân Sơn Nhì", "Tân Phú, TP.HCM"),
    ("ONG", "Huỳnh Tấn Phát", "Q.7, TP.HCM"),
    ("ONG", "Hoàng Hoa Thám", "Hà Nội"),
    ("ONG", "Giải Phóng", "Hà Nội"),
    ("ONG", "Hà Đông", "Hà Nội"),
    ("ONG", "Điện Biên Phủ", "Đà Nẵng"),
    ("ONG", "Đồng Khởi", "Biên Hoà"),
    ("ONG", "Ngô Quyền", "Hải Phòng"),
    ("ONG", "Trần Hưng Đạo", "Mỹ Tho"),
)

# What each brand sells: name, unit, decimals of the unit, lowest and highest cost in dong.
Line = tuple[str, str, int, int, int]
LINES: dict[str, tuple[Line, ...]] = {
    "LUA": (
        ("Gạo", "kg", 3, 14_000, 32_000),
        ("Nước mắm", "chai", 0, 28_000, 95_000),
        ("Bún khô", "gói", 0, 12_000, 26_000),
        ("Trà", "hộp", 0, 35_000, 180_000),
        ("Cà phê rang", "kg", 3, 140_000, 320_000),
        ("Mật ong", "chai", 0, 90_000, 260_000),
        ("Hạt điều", "kg", 3, 190_000, 340_000),
        ("Bánh tráng", "gói", 0, 9_000, 24_000),
        ("Dầu ăn", "chai", 0, 38_000, 72_000),
        ("Đường", "kg", 3, 17_000, 29_000),
        ("Khô bò", "gói", 0, 45_000, 120_000),
        ("Mì trứng", "gói", 0, 6_000, 15_000),
    ),
    "NHA": (
        ("Chén sứ", "cái", 0, 9_000, 42_000),
        ("Ly thuỷ tinh", "cái", 0, 12_000, 60_000),
        ("Rổ tre", "cái", 0, 25_000, 110_000),
        ("Nồi inox", "cái", 0, 180_000, 950_000),
        ("Khăn tắm", "cái", 0, 35_000, 160_000),
        ("Chổi đót", "cây", 0, 22_000, 55_000),
        ("Hộp nhựa", "cái", 0, 14_000, 85_000),
        ("Thớt gỗ", "cái", 0, 48_000, 210_000),
        ("Dao bếp", "cái", 0, 55_000, 390_000),
        ("Bình giữ nhiệt", "cái", 0, 110_000, 480_000),
        ("Chiếu cói", "cái", 0, 95_000, 360_000),
        ("Đèn ngủ", "cái", 0, 85_000, 420_000),
    ),
    "MAY": (
        ("Sổ tay", "quyển", 0, 12_000, 75_000),
        ("Bút gel", "cây", 0, 3_000, 18_000),
        ("Truyện tranh", "quyển", 0, 18_000, 45_000),
        ("Tiểu thuyết", "quyển", 0, 55_000, 160_000),
        ("Giấy A4", "ream", 0, 48_000, 92_000),
        ("Màu nước", "hộp", 0, 35_000, 180_000),
        ("Balo", "cái", 0, 150_000, 520_000),
        ("Bìa hồ sơ", "cái", 0, 2_500, 14_000),
        ("Sách thiếu nhi", "quyển", 0, 28_000, 98_000),
        ("Máy tính cầm tay", "cái", 0, 240_000, 690_000),
        ("Lịch bàn", "quyển", 0, 20_000, 65_000),
        ("Bút chì", "hộp", 0, 15_000, 48_000),
    ),
    "ONG": (
        ("Tã dán", "gói", 0, 120_000, 380_000),
        ("Sữa bột", "lon", 0, 280_000, 720_000),
        ("Bình sữa", "cái", 0, 65_000, 310_000),
        ("Khăn ướt", "gói", 0, 14_000, 48_000),
        ("Bột ăn dặm", "hộp", 0, 45_000, 130_000),
        ("Áo sơ sinh", "cái", 0, 35_000, 120_000),
        ("Núm ti", "cái", 0, 18_000, 95_000),
        ("Xe đẩy", "cái", 0, 890_000, 3_600_000),
        ("Nước giặt", "can", 0, 85_000, 210_000),
        ("Ghế ăn", "cái", 0, 420_000, 1_900_000),
        ("Đồ chơi gỗ", "bộ", 0, 70_000, 350_000),
        ("Chăn lưới", "cái", 0, 60_000, 190_000),
    ),
}
SHARED_LINES: tuple[Line, ...] = (
    ("Túi giấy", "cái", 0, 900, 4_000),
    ("Nước suối", "chai", 0, 3_000, 9_000),
    ("Pin", "vỉ", 0, 12_000, 45_000),
    ("Khẩu trang", "hộp", 0, 18_000, 60_000),
)
VARIETIES = (
    "An Khê",
    "Bình Minh",
    "Cửu Long",
    "Đông Sơn",
    "Hạ Vàng",
    "Mộc Châu",
    "Phố Núi",
    "Sen Hồng",
    "Tây Nguyên",
    "Tràng An",
)
SIZES = ("nhỏ", "vừa", "lớn", "đặc biệt")


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One article: its unit, how many decimals the unit has, and what one costs at the start."""

    code: str
    name: str
    brand: str | None
    base_uom: str
    qty_scale: int
    cost: int

    @property
    def one(self) -> int:
        """One base unit in scaled units."""
        return 1000 if self.qty_scale == 3 else 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """One shop."""

    code: str
    brand: str
    name: str


def catalogue(dice: random.Random, count: int = ITEMS) -> list[Item]:
    """So many articles: most belong to one brand, some are sold by all (brand None)."""
    own = (count - SHARED_ITEMS) // len(BRANDS)
    items = [item for brand in BRANDS for item in _articles(dice, brand, LINES[brand], own)]
    return items + list(_articles(dice, None, SHARED_LINES, SHARED_ITEMS))


def shops() -> list[Store]:
    """The 50 shops in the order of their codes."""
    numbers = dict.fromkeys(BRANDS, 0)
    found = []
    for brand, street, place in PLACES:
        numbers[brand] += 1
        name = f"{BRANDS[brand]} {street} ({place})"
        found.append(Store(code=f"{brand}-{numbers[brand]:02d}", brand=brand, name=name))
    return found


def _articles(
    dice: random.Random, brand: str | None, lines: tuple[Line, ...], count: int
) -> Iterator[Item]:
    # What the words do not suffice for comes in series.
    every = product(range(count), lines, VARIETIES, SIZES)
    for number, (series, (kind, uom, scale, low, high), variety, size) in enumerate(
        islice(every, count), start=1
    ):
        yield Item(
            code=f"{brand or 'CHG'}{number:04d}",
            name=f"{kind} {variety} {size}" + (f" {series + 1}" if series else ""),
            brand=brand,
            base_uom=uom,
            qty_scale=scale,
            cost=int(round(dice.uniform(low, high), -2 if low >= 10_000 else -1)),
        )
