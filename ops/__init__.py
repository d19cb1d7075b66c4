"""Operations, run by people or machines: command line, local stack, audit, oracle, demo."""
