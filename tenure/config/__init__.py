"""`tenured.yml` and `cycles.yml` become checked settings (docs/configuration.md).

``load.py`` is the interface: ``load`` and ``validate``. Data flows ``yamlfile`` (text, lines) ->
``environment`` (overrides) -> ``schema`` (shape of each value) -> ``checks`` (between values) ->
``build`` (``settings`` in the model's units). Every step adds its faults; none hides another's.
"""
