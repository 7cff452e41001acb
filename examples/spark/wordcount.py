"""WordCount: how often each word occurs in a text, the most frequent ones printed.

    wordcount.py [LINES] [PARTS]

The text has LINES lines of twelve words, made of their numbers alone: every run, and every part of
it wherever it runs, sees the same one.
"""

import sys
from operator import add

WORDS = ("executor", "driver", "node", "engine", "job", "deadline")
WORDS += ("cost", "cloud", "local", "plan", "queue", "slack")


def line(number):
    """Return one line: early words of WORDS come more often than late ones."""
    state, words = number * 2654435761 % 2**32, []
    for _ in range(12):
        state = (state * 1664525 + 1013904223) % 2**32
        share = (state >> 8) / 2**24
        words.append(WORDS[int(share * share * len(WORDS))])
    return " ".join(words)


if __name__ == "__main__":
    from pyspark import SparkContext

    lines = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    parts = int(sys.argv[2]) if len(sys.argv) > 2 else 8
    with SparkContext(appName="wordcount") as spark:
        text = spark.range(lines, numSlices=parts).map(line)
        counts = text.flatMap(str.split).map(lambda word: (word, 1)).reduceByKey(add)
        for word, count in sorted(counts.collect(), key=lambda row: (-row[1], row[0])):
            print(word, count)
