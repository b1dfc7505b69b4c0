package executor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"magosproject.io/services/runner/internal/executor/beneath"
	"magosproject.io/services/runner/internal/executor/mask"
	"magosproject.io/services/runner/internal/executor/process"
	"magosproject.io/services/runner/internal/executor/seal"
	"magosproject.io/services/runner/internal/runspec"
)

// show renders the sealed plan, as text and as JSON, for keeper to read. It needs neither variables nor the backend.
func (c *container) show(ctx context.Context) ([]byte, error) {
	digest, err := c.waitForSignal(ctx, runspec.SignalSealed, 2*c.overtime())
	if err != nil {
		return nil, err
	}
	folder := c.cfg.Paths.sealed(c.in.RunID)
	sealed, err := beneath.OpenDir(folder)
	if err != nil {
		return nil, fmt.Errorf("opening the seal: %w", err)
	}
	defer func() { _ = sealed.Close() }()
	manifest, err := seal.Read(sealed, string(digest))
	if err != nil {
		return nil, fail(runspec.ExitSealBroken, reasonSealBroken, err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, c.cfg.ShowTimeout, errTimedOut)
	defer cancel()
	from, err := c.bareFolder(sealed, manifest)
	if err != nil {
		return nil, fmt.Errorf("showing the plan: %w", err)
	}
	// The JSON comes last: keeper takes its appearance for the end of all rendering.
	for _, form := range []struct {
		name string
		args []string
	}{
		{shownText, []string{"show", "-no-color"}},
		{shownJSON, []string{"show", "-no-color", "-json"}},
	} {
		args := append(form.args, filepath.Join(folder, seal.TreeName, manifest.Plan))
		if err := c.render(ctx, manifest.Tool, from, form.name, args); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// bareFolder makes the folder that the tool shows the plan from. It has the lock file and the providers of the seal and
// nothing else: in the module's folder OpenTofu would load the block encryption before it reads the plan, and start the
// programs that the block names, here, where what people judge is made.
func (c *container) bareFolder(sealed *beneath.Dir, manifest seal.Manifest) (string, error) {
	folder := filepath.Join(c.cfg.Paths.Scratch, "bare")
	if err := os.MkdirAll(filepath.Join(folder, dataName), 0o750); err != nil {
		return "", err
	}
	module := path.Join(seal.TreeName, manifest.Module)
	lock, err := sealed.ReadFile(path.Join(module, lockFileName), maxLockFile)
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, lockFileName), lock, 0o640)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	// The tools follow a link here. A module without providers has no such folder.
	providers := path.Join(module, dataName, providersName)
	if _, err := sealed.Lstat(providers); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return folder, nil
		}
		return "", err
	}
	return folder, os.Symlink(filepath.Join(sealed.Name(), providers), filepath.Join(folder, dataName, providersName))
}

// render runs the tool and leaves what it printed under name, whole or not at all.
func (c *container) render(ctx context.Context, program, dir, name string, args []string) (err error) {
	env, err := c.offlineEnvironment()
	if err != nil {
		return err
	}
	temporary := filepath.Join(c.cfg.Paths.Shown, "."+name)
	file, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o640)
	if err != nil {
		return fmt.Errorf("showing the plan: %w", err)
	}
	limited := &limitedWriter{to: file, left: c.cfg.ShownLimit}
	errOut := newToolOutput(c.cfg.Stdout, mask.Forms{})
	err = c.group.Run(ctx, process.Command{
		Path: program, Args: args, Dir: dir, Env: env, Stdout: limited, Output: errOut,
	}, 0)
	errOut.end()
	if closeErr := file.Close(); err == nil {
		err = errors.Join(limited.err, closeErr)
		if err != nil {
			return failf(runspec.ExitToolFailed, reasonPlanFailed, "showing the plan: %w", err)
		}
	}
	if err != nil {
		return toolFailed(ctx, reasonPlanFailed, fmt.Errorf("showing the plan: %w", err), errOut)
	}
	if err := os.Rename(temporary, filepath.Join(c.cfg.Paths.Shown, name)); err != nil {
		return fmt.Errorf("showing the plan: %w", err)
	}
	return nil
}

// limitedWriter remembers that it could not take everything: a cut plan must not pass for a whole one.
type limitedWriter struct {
	to   io.Writer
	left int64
	err  error
}

var errShownTooLarge = errors.New("the rendered plan is larger than the limit")

func (w *limitedWriter) Write(data []byte) (int, error) {
	if w.err == nil {
		if w.left -= int64(len(data)); w.left < 0 {
			w.err = errShownTooLarge
		} else {
			_, w.err = w.to.Write(data)
		}
	}
	if w.err != nil {
		return 0, w.err
	}
	return len(data), nil
}
