from tenure.placement.order import order_key


def test_priority_then_deadline_then_arrival() -> None:
    rows = [
        (5, 900, 4),
        (5, None, 1),
        (0, 100, 2),
        (0, 100, 6),
        (0, 200, 3),
        (0, None, 0),
        (-1, 50, 5),
    ]
    assert sorted(reversed(rows), key=lambda row: order_key(*row)) == rows
