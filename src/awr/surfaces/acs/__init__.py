"""The Guardian's doors: POST /acs over HTTP, alone or in the shared service, and frames on standard input."""
