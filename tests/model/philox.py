"""The counter-based generator behind every seeded order: Philox 4x32 with 10 rounds."""

from __future__ import annotations

from collections.abc import Iterator

MASK = 0xFFFFFFFF
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
ROUNDS = 10

# What stands in for the global seed when only an operator has one.
NO_GLOBAL_SEED = 87654321
SEED_MODULUS = 2**31 - 1


def seed_pair(op_seed: int, global_seed: int = NO_GLOBAL_SEED) -> tuple[int, int]:
    """The pair of an operator that was given a seed."""
    return global_seed % SEED_MODULUS, op_seed % SEED_MODULUS


def numbers(pair: tuple[int, int]) -> Iterator[int]:
    """The endless sequence of 32-bit numbers that a seed pair starts."""
    first, second = pair
    block = 0
    while True:
        counter = (block & MASK, block >> 32, second & MASK, second >> 32)
        yield from _block(counter, (first & MASK, first >> 32))
        block += 1


def _block(counter: tuple[int, int, int, int], key: tuple[int, int]) -> tuple[int, int, int, int]:
    for _ in range(ROUNDS):
        left, right = MULTIPLIERS[0] * counter[0], MULTIPLIERS[1] * counter[2]
        counter = (
            (right >> 32) ^ counter[1] ^ key[0],
            right & MASK,
            (left >> 32) ^ counter[3] ^ key[1],
            left & MASK,
        )
        key = ((key[0] + KEY_STEPS[0]) & MASK, (key[1] + KEY_STEPS[1]) & MASK)
    return counter
