"""Sort: order numbers over the whole cluster, check the order, print both ends and the middle.

    sort.py [NUMBERS] [PARTS]

Number i is a scrambled i, so that every run sorts the same ones.
"""

import sys


def number(index):
    """Return the number at a place of the unsorted list; different places differ."""
    return index * 2654435761 % 2**32


def ends(part):
    """Return the first and last number of a part, which must be in order; none of an empty one."""
    first = last = next(part, None)
    for each in part:
        if each < last:
            raise ValueError("not in order")
        last = each
    return [] if first is None else [(first, last)]


if __name__ == "__main__":
    from pyspark import SparkContext

    count = int(sys.argv[1]) if len(sys.argv) > 1 else 500_000
    parts = int(sys.argv[2]) if len(sys.argv) > 2 else 8
    with SparkContext(appName="sort") as spark:
        rows = spark.range(count, numSlices=parts).map(lambda i: (number(i), i))
        ordered = rows.sortByKey(numPartitions=parts).keys().cache()
        flat = [edge for pair in ordered.mapPartitions(ends).collect() for edge in pair]
        if flat != sorted(flat) or ordered.count() != count:
            sys.exit("not in order")
        places = (0, count // 2, count - 1)
        middle = ordered.zipWithIndex().filter(lambda row: row[1] in places).keys().collect()
        print(*middle)
