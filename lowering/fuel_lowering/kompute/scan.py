def emit_scan(*a): raise NotImplementedError
