"""REST v1 over aiohttp: validation, problems, views, the event stream, OpenAPI.

One table of endpoints (``routes``) drives the routing, the checks and ``/openapi.json``, so that
none of them can say something the others do not.
"""
