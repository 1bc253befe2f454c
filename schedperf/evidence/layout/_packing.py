"""The fewest cache lines that a few variables can occupy, and an order that gets there."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

# Orders of up to this many are all tried: 8! is 40,320 before equal ones are left out. The sets
# that were measured have two to eight members.
MOST_EXACT = 8


@dataclass(frozen=True, kw_only=True, slots=True)
class Block:
    """Bytes that move as a whole.

    :param name: of a struct's member its first path component
    :param size: bytes, at least 1
    :param alignment: bytes, a power of two
    """

    name: str
    size: int
    alignment: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Packing:
    """How few lines blocks need.

    :param at_least: no order takes fewer lines
    :param lines: how many ``order`` takes if it begins at a line; ``at_least`` where all orders
        were tried
    """

    at_least: int
    lines: int
    order: tuple[Block, ...]

    @property
    def is_exact(self) -> bool:
        """Whether no order is better than the one found."""
        return self.at_least == self.lines


def align_up(offset: int, alignment: int) -> int:
    """Return the first multiple of an alignment that is not before an offset."""
    return -(-offset // alignment) * alignment


def span_lines(start: int, size: int, line_bytes: int) -> range:
    """Return the lines that bytes lie on."""
    return range(start // line_bytes, (start + max(size, 1) - 1) // line_bytes + 1)


def fewest_lines(blocks: Iterable[Block], line_bytes: int) -> Packing:
    """Return the fewest lines that blocks can occupy, declared one after the other.

    :param line_bytes: a power of two
    """
    # Large alignments first leaves no padding where sizes are multiples of them.
    ordered = sorted(blocks, key=lambda block: (-block.alignment, -block.size, block.name))
    at_least = -(-sum(block.size for block in ordered) // line_bytes)
    best = ordered
    lines = _lines(best, line_bytes)
    if lines > at_least and len(ordered) <= MOST_EXACT:
        best = _search(ordered, line_bytes)
        lines = at_least = _lines(best, line_bytes)
    return Packing(at_least=at_least, lines=lines, order=tuple(best))


def _lines(blocks: Sequence[Block], line_bytes: int) -> int:
    end, lines = 0, set[int]()
    for block in blocks:
        start = align_up(end, block.alignment)
        end = start + block.size
        lines.update(span_lines(start, block.size, line_bytes))
    return len(lines)


def _search(blocks: Sequence[Block], line_bytes: int) -> list[Block]:
    # Depth first. How it goes on depends on where it ends, what is left and how many lines are
    # taken, so no such state is tried twice.
    best, best_lines = list(blocks), _lines(blocks, line_bytes)
    seen: set[tuple[int, frozenset[int], int]] = set()

    def go(end: int, left: frozenset[int], order: tuple[int, ...]) -> None:
        nonlocal best, best_lines
        chosen = [blocks[index] for index in order]
        lines = _lines(chosen, line_bytes)
        if lines >= best_lines or (end, left, lines) in seen:
            return
        seen.add((end, left, lines))
        if not left:
            best, best_lines = chosen, lines
        for index in sorted(left):
            start = align_up(end, blocks[index].alignment)
            go(start + blocks[index].size, left - {index}, (*order, index))

    go(0, frozenset(range(len(blocks))), ())
    return best
