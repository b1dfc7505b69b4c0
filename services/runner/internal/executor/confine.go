package executor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"magosproject.io/services/runner/internal/executor/landlock"
	"magosproject.io/services/runner/internal/executor/tfvars"
	"magosproject.io/services/runner/internal/runspec"
)

// hideCredentials returns what keeps the mounted repository Secrets from the tool that fetches modules; nil where there are
// none. It evaluates sources and versions of modules, with every function: file could read a Secret, and the URL of a
// source carry it away. Where the kernel cannot help, a module for which nothing is evaluated is fetched all the same.
func (c *container) hideCredentials(module string) (func() error, error) {
	folder := c.cfg.Paths.Repositories
	if _, err := os.Stat(folder); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if c.cfg.Landlock {
		return func() error { return landlock.HideFrom(folder) }, nil
	}
	if !evaluatesSources(c.in.Engine, c.in.ToolVersion) {
		return nil, nil
	}
	checkout, err := os.OpenRoot(c.cfg.Paths.checkout(c.in.RunID))
	if err != nil {
		return nil, fmt.Errorf("opening the checkout: %w", err)
	}
	defer func() { _ = checkout.Close() }()
	if err := tfvars.Plain(checkout, module, c.in.Engine); err != nil {
		return nil, failf(runspec.ExitFetchFailed, reasonFetchFailed, "%w. The kernel of this node has no Landlock, without which nothing keeps repository "+
			"credentials from what %s evaluates there: use nodes that have it (Linux 5.13 or later), or write sources as plain paths below the repository (./ or ../) "+
			"and versions as plain text", err, c.in.Engine)
	}
	c.log.Warn("the kernel has no Landlock: only modules whose sources are plain paths of the repository can be fetched while repository credentials are mounted")
	return nil, nil
}

// evaluatesSources says whether the tool evaluates expressions when it fetches modules, which OpenTofu does since 1.8. Of
// Terraform from 1.15 on it is taken for granted. A version that cannot be read may.
func evaluatesSources(engine, version string) bool {
	var major, minor int
	if _, err := fmt.Sscanf(version, "%d.%d.", &major, &minor); err != nil {
		return true
	}
	since := 8
	if engine == "Terraform" {
		since = 15
	}
	return major > 1 || minor >= since
}
