"""How amounts of money are written, wherever they are shown."""

from __future__ import annotations


def money(amount: float) -> str:
    """An amount with two decimals and marks between thousands.

    Examples
    --------
    >>> money(189.0017993), money(1299.5), money(-0.001)
    ('189.00', '1,299.50', '0.00')
    """
    return f"{round(amount, 2) + 0.0:,.2f}"
