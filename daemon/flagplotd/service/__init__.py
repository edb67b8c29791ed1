"""The shells around the core: the loop, dispatch of requests, agents."""
