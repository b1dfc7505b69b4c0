package executor

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"magosproject.io/services/runner/internal/executor/mask"
	"magosproject.io/services/runner/internal/executor/process"
	"magosproject.io/services/runner/internal/runspec"
)

// plan is the part of tool in the pod of a plan. What it runs is the module's code; it reports by its exit code alone.
func (c *container) plan(ctx context.Context) ([]byte, error) {
	ctx, cancel := c.withTimeout(ctx)
	defer cancel()
	content, err := c.waitForSignal(ctx, runspec.SignalFetched, c.overtime())
	if err != nil {
		return nil, err
	}
	ready, err := parseFetched(content)
	if err != nil {
		return nil, err
	}
	variables, err := c.readVariables()
	if err != nil {
		return nil, err
	}
	g, declared, err := c.prepareVariables(ready, variables)
	if err != nil {
		return nil, err
	}
	defer g.close()
	env, err := c.offlineEnvironment()
	if err != nil {
		return nil, err
	}
	t := tool{
		container: c, path: ready.Tool, dir: filepath.Join(c.cfg.Paths.checkout(c.in.RunID), ready.Module),
		env: append(env, g.environment...), files: g.files(), forms: mask.NewForms(c.confidential(variables)), reason: reasonPlanFailed,
	}
	values := g.arguments()
	if ready.TfvarsFile != "" {
		values = append([]string{"-var-file=" + filepath.Join(c.cfg.Paths.checkout(c.in.RunID), ready.TfvarsFile)}, values...)
	}
	args := []string{"init", "-get=false", "-lockfile=readonly", "-input=false", "-no-color"}
	if c.in.Engine == "OpenTofu" {
		// Its backends may depend on variables. Terraform's may not.
		args = append(args, values...)
	}
	if _, err := t.run(ctx, args...); err != nil {
		return nil, err
	}
	if err := requireBackend(t.dir); err != nil {
		return nil, err
	}
	args = []string{"plan", "-input=false", "-no-color", "-out=" + c.cfg.Paths.plan(c.in.RunID)}
	if c.in.Destroy {
		args = append(args, "-destroy")
	}
	if _, err = t.run(ctx, append(args, values...)...); err != nil {
		return nil, err
	}
	return nil, c.keepConfidential(variables, declared)
}

// tool runs terraform or tofu for one part.
type tool struct {
	*container
	path, dir string
	env       []string
	files     []*os.File
	forms     mask.Forms
	// reason of a failure that the tool itself is the cause of.
	reason string
}

// run passes the masked output on, and turns the end of the tool into the end of the container.
func (t tool) run(ctx context.Context, args ...string) (*toolOutput, error) {
	out := newToolOutput(t.cfg.Stdout, t.forms)
	t.log.Info("running", "tool", filepath.Base(t.path), "command", args[0])
	err := t.group.Run(ctx, process.Command{
		Path: t.path, Args: args, Dir: t.dir, Env: t.env, Output: out, Files: t.files,
	}, time.Duration(t.in.Grace))
	out.end()
	if err != nil {
		return out, toolFailed(ctx, t.reason, err, out)
	}
	return out, nil
}
