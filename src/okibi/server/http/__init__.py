"""The public APIs over HTTP.

`app` lists every route; a module an endpoint. `call` and `run` hold what all generating endpoints
share, the `*_format` modules what an API's answers look like. Requests are checked here, at the
border; nothing behind this package sees a bad one.
"""
