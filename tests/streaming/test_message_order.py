"""Messages are learnt one of each partition in turn, in parts that do not depend on when a server gives them."""

import itertools
import random

import pytest

pytest.importorskip("pyarrow", reason="the stream tool needs the `stream` extra")
pytest.importorskip("msgspec", reason="the stream tool needs the `stream` extra")

from kampong.streaming import Source
from kampong.streaming.columns.records import Dead
from kampong.streaming.sources import positions
from kampong.streaming.sources.connections import Feed, Waiting
from kampong.streaming.sources.messages import Messages


class Given(Feed):
    """A stream whose server gives some messages of some partitions at a time."""

    identity = "given"

    def __init__(self, partitions, rng):
        self.partitions, self.rng, self.at = partitions, rng, [0] * len(partitions)
        self.waiting = [Waiting() for _ in partitions]

    def start(self, at, choice, *, ends):
        self.at = [at[i] if i < len(at) else 0 for i in range(len(self.partitions))]
        return list(self.at)

    def fetch(self, seconds):
        for i, records in enumerate(self.partitions):
            if self.rng.random() < 0.6:
                end = min(self.at[i] + self.rng.randrange(40), len(records))
                self.waiting[i].add(records[self.at[i] : end], range(self.at[i], end))
                self.at[i] = end

    def after(self, mark):
        return mark + 1

    def number(self, mark):
        return mark

    def key(self, partition, mark):
        return f"given-{partition}-{mark}"

    def over(self, partition):
        return self.at[partition] == len(self.partitions[partition])

    def close(self):
        pass


def parts(partitions, seed, place=None):
    """Return the parts of a stream, as what a model would learn of them and the places after them."""
    opened = Messages(Source("redis://host/given"), Given(partitions, random.Random(seed)), place, None)
    return [(list(one.taken), one.lines(), one.unusable, one.end) for one in opened]


@pytest.mark.parametrize("seed", range(8))
def test_the_order_is_that_of_turns_whenever_messages_come(seed, monkeypatch):
    monkeypatch.setattr(positions, "SMALLEST", 7)
    monkeypatch.setattr(positions, "LARGEST", 50)
    rng = random.Random(seed)
    lengths = [rng.choice([0, 3, 60, 200]) for _ in range(rng.randrange(1, 6))] + [90]
    partitions = [[f"{i} {j}".encode() for j in range(length)] for i, length in enumerate(lengths)]
    turns = [
        (i, j) for j in range(max(lengths)) for i, length in enumerate(lengths) if j < length
    ]  # the definition, whatever the parts
    whole = parts(partitions, 0)
    keys, lines = zip(*[one[:2] for one in whole], strict=True)
    assert list(itertools.chain(*keys)) == [f"given-{i}-{j}" for i, j in turns]
    expected = [(n + 1, j, f"{i} {j}".encode()) for n, (i, j) in enumerate(turns)]
    assert list(itertools.chain(*lines)) == expected
    for other in range(1, 6):
        assert parts(partitions, other) == whole
    cut = rng.randrange(len(whole))
    assert parts(partitions, 9, whole[cut][-1].to_state()) == whole[cut + 1 :]


def test_messages_that_are_no_lines_are_dead_letters_in_their_places(monkeypatch):
    monkeypatch.setattr(positions, "SMALLEST", 100)
    source = Source("redis://host/given")
    long = b"x" * (source.layout.max_record_bytes + 1)
    sent = [b"a", b" \t ", "the entry has no field 'b'", b"b\nc", long, b"d"]
    ((keys, lines, dead, end),) = parts([sent], 0)
    assert lines == [(1, 0, b"a"), (4, 3, b"b c"), (6, 5, b"d")]
    assert [(one.record, one.line, one.offset, one.reason) for one in dead] == [
        (1, 2, 1, "the message is empty"),
        (2, 3, 2, "the entry has no field 'b'"),
        (4, 5, 4, f"the message has {len(long):,} bytes, more than a record may have"),
    ]
    assert isinstance(dead[0], Dead)
    assert (len(keys), end.row, end.values) == (6, 6, [6])
