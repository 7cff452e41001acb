"""What of locality needs the network: where blocks lie in HDFS."""
