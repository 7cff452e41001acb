"""Where blocks of datasets lie on the tiers of nodes: records, surveys, pins, and HDFS."""
