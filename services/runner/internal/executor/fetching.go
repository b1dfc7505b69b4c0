package executor

import (
	"context"
	"errors"
	"net/http"
	"path/filepath"
	"time"

	"magosproject.io/services/runner/internal/executor/fetch"
	"magosproject.io/services/runner/internal/executor/gitauth"
	"magosproject.io/services/runner/internal/runspec"
)

// fetchAll fetches the module, the tool, and what the module needs. The credentials for it are at hand only meanwhile:
// all of it happens before any code of the module or of a provider runs.
func (c *container) fetchAll(ctx context.Context) (prepared, error) {
	agent, err := gitauth.Start(gitauth.Config{
		Secrets: c.cfg.Paths.Repositories, Memory: c.cfg.Paths.Credentials, Client: &http.Client{Timeout: time.Minute}, Log: c.log,
	})
	if err != nil {
		return prepared{}, fail(runspec.ExitInternal, reasonFetchFailed, err)
	}
	c.git = agent
	var ready prepared
	err = c.fetchModule(ctx, &ready)
	if err == nil {
		ready.warnings, err = c.variableWarnings(ready.Module)
	}
	if err == nil {
		agent.Forget()
		err = c.acquireTool(ctx, &ready)
	}
	if err == nil {
		err = c.fetchProviders(ctx, ready.Tool, ready.Module)
	}
	err = agent.Explain(err)
	return ready, errors.Join(err, agent.Close())
}

// access is how git may reach remotes, here and below the tool.
func (c *container) access() fetch.Access {
	a := fetch.Access{Schemes: c.in.GitSchemes, Helpers: c.in.GitHelpers}
	a.CredentialHelper, a.SSH = c.git.Commands(c.cfg.Self)
	return a
}

func (c *container) fetchModule(ctx context.Context, ready *prepared) error {
	env, err := c.environment()
	if err != nil {
		return err
	}
	checkout, access := c.cfg.Paths.checkout(c.in.RunID), c.access()
	c.log.Info("fetching", "commit", c.in.Revision, "ref", c.in.TargetRevision)
	err = fetch.Checkout{
		URL: c.in.RepoURL, Commit: c.in.Revision, Ref: c.in.TargetRevision, Into: checkout, Submodules: c.in.RecurseSubmodules,
		Scratch: filepath.Join(c.cfg.Paths.Scratch, "git"), Access: access, Env: fetch.Environment(env, access),
		Mask: func(text string) string { return c.git.Forms().String(text) },
	}.Run(ctx, c.group, c.log)
	if err == nil {
		err = c.findModule(checkout, ready)
	}
	if err != nil {
		return fail(runspec.ExitFetchFailed, reasonFetchFailed, err)
	}
	return nil
}

// findModule finds in the checkout what the run is about, and removes what must not be used.
func (c *container) findModule(checkout string, ready *prepared) error {
	dropped, err := fetch.DropData(checkout)
	if err != nil {
		return err
	}
	if len(dropped) > 0 {
		c.log.Warn("the repository brings data of the tool's own; it is not used", "removed", dropped)
	}
	ready.Module, err = fetch.Folder(checkout, c.in.Path, c.in.Revision)
	if err == nil && c.in.TfvarsPath != "" {
		ready.TfvarsFile, err = fetch.File(checkout, c.in.TfvarsPath, c.in.Revision)
	}
	if err != nil {
		return err
	}
	pointers, err := fetch.Pointers(checkout)
	if err != nil || len(pointers) == 0 {
		return err
	}
	c.log.Warn("these files are Git LFS pointers: runs do not fetch from LFS, and the module sees the pointers",
		"files", pointers[:min(len(pointers), 10)], "count", len(pointers))
	return fetch.CheckPointers(pointers, ready.Module, ready.TfvarsFile)
}
