"""What a sweep of readings tells: samples of ours, use of what is not, the latest of all."""
