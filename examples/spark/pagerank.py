"""PageRank: the importance of pages by the links between them, the first ones printed.

    pagerank.py [PAGES] [ROUNDS] [PARTS]

Page i links to i // 2, which makes a tree, and to two pages that its number scrambles.
"""

import sys
from operator import add

DAMPING = 0.85


def links(page, pages):
    """Return the pages that a page links to, each once."""
    return sorted({page // 2, page * 48271 % pages, (page * 69621 + 1) % pages})


def shares(row):
    """Return what a page gives to each page that it links to."""
    _, (targets, rank) = row
    return [(target, rank / len(targets)) for target in targets]


if __name__ == "__main__":
    from pyspark import SparkContext

    pages = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    parts = int(sys.argv[3]) if len(sys.argv) > 3 else 4
    with SparkContext(appName="pagerank") as spark:
        graph = spark.range(pages, numSlices=parts).map(lambda i: (i, links(i, pages)))
        graph = graph.partitionBy(parts).cache()
        ranks = graph.mapValues(lambda _: 1.0)
        for _ in range(rounds):
            given = graph.join(ranks, parts).flatMap(shares).reduceByKey(add, parts)
            ranks = given.mapValues(lambda sum_: 1 - DAMPING + DAMPING * sum_)
        for page, rank in ranks.takeOrdered(5, key=lambda row: (-row[1], row[0])):
            print(page, f"{rank:.6f}")
