"""Docker engines: one port, its implementation over HTTP, and the watcher of a node.

``port.EnginePort`` is what the daemon sees; ``engine.Engine`` implements it over ``unix://``,
``tcp://``, TLS and ssh; ``watch.Watcher`` turns an engine into events for the core.
"""
