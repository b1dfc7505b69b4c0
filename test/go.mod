module magosproject.io/test

go 1.26.0
