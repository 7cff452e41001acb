"""Docker engines over HTTP, and the watcher of a node.

``engine.Engine`` speaks to one over ``unix://``, ``tcp://``, TLS and ssh; ``watch.Watcher`` turns
one into events for the core.
"""
