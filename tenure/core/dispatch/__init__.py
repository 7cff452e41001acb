"""Which task of a batch begins where and when: the planned starts of nodes, and matched inputs."""
