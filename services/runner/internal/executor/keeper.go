package executor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"runtime"
	"time"

	"magosproject.io/services/runner/internal/executor/beneath"
	"magosproject.io/services/runner/internal/executor/links"
	"magosproject.io/services/runner/internal/executor/planjson"
	"magosproject.io/services/runner/internal/executor/toolchain"
	"magosproject.io/services/runner/internal/runspec"
)

// prepared is what keeper made ready for tool, and must not learn from it again.
type prepared struct {
	fetched
	toolSHA256 string
	// warnings are about the variables.
	warnings []string
}

// keep is the part of keeper: fetch, hand over, seal, have it shown, report.
func (c *container) keep(ctx context.Context) ([]byte, error) {
	ready, err := c.prepare(ctx)
	if err != nil {
		return nil, err
	}
	if err := c.waitForEnd(ctx, runspec.ContainerTool, c.overtime(), nil); err != nil {
		return nil, err
	}
	digest, err := c.sealOrClear(ready)
	if err != nil {
		return nil, orInterrupted(ctx, err)
	}
	c.log.Info("sealed", "digest", digest)
	if err := writeSignal(c.cfg.Paths.Signals, runspec.SignalSealed, []byte(digest)); err != nil {
		return nil, err
	}
	summary, err := c.readShown(ctx)
	if err != nil {
		return nil, err
	}
	c.log.Info("planned", "empty", summary.Empty, "changes", fmt.Sprintf("%+v", summary.Changes))
	return renderRecord(runspec.Record{
		Version: runspec.Version, RunID: c.in.RunID, Outcome: runspec.OutcomePlanned,
		Digest: digest, Empty: summary.Empty, Changes: summary.Changes,
		Review: c.review(digest, summary), Drifted: summary.Drifted, DriftedTotal: summary.DriftedTotal, Warnings: ready.warnings,
	})
}

// prepare fetches everything that planning needs and hands it over.
func (c *container) prepare(ctx context.Context) (prepared, error) {
	// First of all: on a full volume nothing can be written before what earlier runs left is gone.
	c.pruneRuns()
	if err := c.prepareStorage(); err != nil {
		return prepared{}, err
	}
	ctx, cancel := c.withTimeout(ctx)
	defer cancel()
	ready, err := c.fetchAll(ctx)
	if err == nil {
		err = c.keepInit(ready)
	}
	if err != nil {
		return prepared{}, orInterrupted(ctx, err)
	}
	content, err := json.Marshal(ready.fetched)
	if err != nil {
		return prepared{}, fmt.Errorf("handing over to tool: %w", err)
	}
	return ready, writeSignal(c.cfg.Paths.Signals, runspec.SignalFetched, content)
}

func (c *container) acquireTool(ctx context.Context, ready *prepared) error {
	engine, err := toolchain.ByName(c.in.Engine)
	if err != nil {
		return fail(runspec.ExitToolUnavailable, reasonToolUnavailable, err)
	}
	tool, err := toolchain.Source{
		Image: c.cfg.Paths.ImageTools, Volume: c.cfg.Paths.tools(), Mirror: c.in.ToolMirror, Sites: c.cfg.Sites,
		OS: runtime.GOOS, Arch: runtime.GOARCH, Client: &http.Client{Timeout: time.Hour}, Log: c.log,
	}.Acquire(ctx, engine, c.in.ToolVersion)
	if err != nil {
		return fail(runspec.ExitToolUnavailable, reasonToolUnavailable, err)
	}
	c.log.Info("tool", "path", tool.Path, "sha256", tool.SHA256)
	ready.Tool, ready.toolSHA256 = tool.Path, tool.SHA256
	return nil
}

// readShown waits for show and summarizes what it left.
func (c *container) readShown(ctx context.Context) (planjson.Summary, error) {
	dir, err := beneath.OpenDir(c.cfg.Paths.Shown)
	if err != nil {
		return planjson.Summary{}, fmt.Errorf("reading the shown plan: %w", err)
	}
	defer func() { _ = dir.Close() }()
	there := func() (bool, error) {
		_, err := dir.Lstat(shownJSON)
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
		return err == nil, err
	}
	if err := c.waitForEnd(ctx, runspec.ContainerShow, c.cfg.ShowTimeout+time.Minute, there); err != nil {
		return planjson.Summary{}, err
	}
	file, err := dir.OpenRegular(shownJSON)
	if errors.Is(err, fs.ErrNotExist) {
		return planjson.Summary{}, failf(runspec.ExitPeerEnded, reasonPlanFailed, "the sealed plan could not be shown; container show says why")
	}
	if err != nil {
		return planjson.Summary{}, fail(runspec.ExitToolFailed, reasonPlanFailed, err)
	}
	defer func() { _ = file.Close() }()
	summary, err := planjson.Read(io.LimitReader(file, c.cfg.ShownLimit))
	if err != nil {
		return planjson.Summary{}, fail(runspec.ExitToolFailed, reasonPlanFailed, err)
	}
	return summary, nil
}

// checkTree refuses links out of the working copy that fetching modules may have brought in.
func checkTree(tree *beneath.Dir, home string, skip func(string) bool) error {
	if err := links.Check(tree, home, skip); err != nil {
		return failf(runspec.ExitFetchFailed, reasonFetchFailed, "checking the working copy: %w", err)
	}
	return nil
}
