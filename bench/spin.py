"""What W9 calls for each element: about 200 us of interpreted Python, the same for every loader."""
ROUNDS = 3000


def spin(x: int) -> int:
    for _ in range(ROUNDS):
        x = (x * 31 + 7) & 0xFFFF
    return x
