// Command magos-exec is the first process of every container of a run. Its one argument says which part it plays:
// keeper, tool, show or apply. While keeper fetches, git calls it too, for credentials.
package main

import (
	"os"

	"magosproject.io/services/runner/internal/executor"
	"magosproject.io/services/runner/internal/executor/gitauth"
)

func main() {
	if code, called := gitauth.Called(os.Args[1:], os.Stdin, os.Stdout, os.Stderr); called {
		os.Exit(code)
	}
	cfg := executor.NewDefaultConfig()
	cfg.Environment, cfg.Stdout, cfg.Stderr = os.Environ(), os.Stdout, os.Stderr
	role := ""
	if len(os.Args) == 2 {
		role = os.Args[1]
	}
	os.Exit(executor.Run(role, cfg))
}
