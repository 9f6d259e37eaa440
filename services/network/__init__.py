"""How calls get in and out: connections and servers, who may call, how much of it, in time, and what errors become."""
