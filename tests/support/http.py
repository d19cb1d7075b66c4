"""Plain HTTP to this machine, as httpx has it, by one client for all questions of a process.

`httpx.get` makes a client for each call, which reads the certificates of all authorities: 20 to 30
ms of the processor, more than most answers take, for connections that have no TLS.
"""

import httpx

# A connection for each call: a server that is killed and comes back must not matter.
_client = httpx.Client(limits=httpx.Limits(max_keepalive_connections=0))
get = _client.get
post = _client.post
