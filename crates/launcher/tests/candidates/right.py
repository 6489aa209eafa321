def add(a, b):
    print("a right candidate may print")
    return a + b
