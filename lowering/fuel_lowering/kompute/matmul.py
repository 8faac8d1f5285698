def emit_matmul(*a): raise NotImplementedError
