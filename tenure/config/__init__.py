"""`tenured.yml` and `cycles.yml` become checked settings (docs/configuration.md).

``load.py`` is the interface: ``load`` and ``validate``. Data flows ``yamlfile`` (text, lines) ->
``environment`` (overrides) -> ``defaults`` (from the surroundings) -> sections, one model each:
``settings`` is all of them, ``section`` says how they are written. Every step adds its faults; none
hides another's.
"""
