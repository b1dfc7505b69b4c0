package executor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"magosproject.io/services/runner/internal/executor/beneath"
	"magosproject.io/services/runner/internal/executor/seal"
	"magosproject.io/services/runner/internal/runspec"
)

// keepInit sets aside what keeper's own init decided, the providers and their checksums, before module code runs.
func (c *container) keepInit(ready prepared) error {
	checkout, err := beneath.OpenDir(c.cfg.Paths.checkout(c.in.RunID))
	if err != nil {
		return fmt.Errorf("setting providers aside: %w", err)
	}
	defer func() { _ = checkout.Close() }()
	providers := path.Join(ready.Module, dataName, providersName)
	err = checkTree(checkout, c.cfg.Paths.checkout(c.in.RunID), func(folder string) bool { return folder == providers })
	if err != nil {
		return err
	}
	kept := filepath.Join(c.cfg.Paths.sealed(c.in.RunID), keptName)
	if err := os.Mkdir(kept, 0o750); err != nil {
		return fmt.Errorf("setting providers aside: %w", err)
	}
	return c.copyInit(checkout, ready.Module, kept)
}

// copyInit copies providers and lock file between the module's folder and the flat folder kept.
func (c *container) copyInit(checkout *beneath.Dir, module, kept string) error {
	target, err := beneath.OpenDir(kept)
	if err != nil {
		return err
	}
	defer func() { _ = target.Close() }()
	err = c.copyTree(checkout, path.Join(module, dataName, providersName), target, providersName)
	if err != nil {
		return fmt.Errorf("setting providers aside: %w", err)
	}
	lock, err := checkout.ReadFile(path.Join(module, lockFileName), maxLockFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return failf(runspec.ExitFetchFailed, reasonFetchFailed, "reading the module's lock file: %w", err)
	}
	return writeNew(target, lockFileName, lock)
}

const maxLockFile = 16 << 20

// copyTree copies the folder from/at to to/name. A folder that does not exist is none.
func (c *container) copyTree(from *beneath.Dir, at string, to *beneath.Dir, name string) error {
	source, err := from.Dir(at)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = source.Close() }()
	target, err := to.Mkdir(name, 0o750)
	if err != nil {
		return err
	}
	return errors.Join(seal.Copy(source, target, c.cfg.SealLimits, nil), target.Close())
}

func writeNew(dir *beneath.Dir, name string, content []byte) error {
	file, err := dir.Create(name, 0o640)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	return errors.Join(err, file.Close())
}

// sealOrClear leaves nothing on the volume of a plan that could not be sealed: nobody can use it, and where the volume is
// full it is the very thing that fills it.
func (c *container) sealOrClear(ready prepared) (string, error) {
	digest, err := c.seal(ready)
	if err != nil {
		if clearErr := c.clearRun(); clearErr != nil {
			c.log.Warn("removing what could not be sealed", "error", clearErr)
		}
	}
	return digest, err
}

// seal copies the plan and the working copy that belongs to it, with the providers that keeper itself chose, to where
// only keeper writes, and returns the digest of all of it.
func (c *container) seal(ready prepared) (string, error) {
	work, err := beneath.OpenDir(c.cfg.Paths.work(c.in.RunID))
	if err != nil {
		return "", fmt.Errorf("sealing: %w", err)
	}
	defer func() { _ = work.Close() }()
	if _, err := work.Lstat(planName); errors.Is(err, fs.ErrNotExist) {
		return "", failf(runspec.ExitPeerEnded, reasonPlanFailed, "container tool ended without a plan; it says why")
	}
	sealed, err := beneath.OpenDir(c.cfg.Paths.sealed(c.in.RunID))
	if err != nil {
		return "", fmt.Errorf("sealing: %w", err)
	}
	defer func() { _ = sealed.Close() }()
	tree, err := sealed.Mkdir(seal.TreeName, 0o750)
	if err != nil {
		return "", fmt.Errorf("sealing: %w", err)
	}
	defer func() { _ = tree.Close() }()
	if err := c.fillSeal(work, sealed, tree, ready.Module); err != nil {
		return "", failf(runspec.ExitToolFailed, reasonPlanFailed, "sealing the plan: %w", err)
	}
	if err := removeTree(filepath.Join(sealed.Name(), keptName)); err != nil {
		return "", err
	}
	entries, err := seal.Describe(tree)
	if err != nil {
		return "", fmt.Errorf("sealing: %w", err)
	}
	tfvarsFile := ""
	if ready.TfvarsFile != "" {
		tfvarsFile = path.Join(sourceName, ready.TfvarsFile)
	}
	return seal.Write(sealed, seal.Manifest{
		TfvarsFile: tfvarsFile,
		RunID:      c.in.RunID, Revision: c.in.Revision, Module: path.Join(sourceName, ready.Module), Plan: planName,
		Engine: c.in.Engine, ToolVersion: c.in.ToolVersion, Tool: ready.Tool, ToolSHA256: ready.toolSHA256, Entries: entries,
	})
}

// errUnreadable refuses what show cannot open: only the module's own code could give it the key.
var errUnreadable = errors.New("the plan is encrypted, or no plan, so that nobody could read what it would do: take `plan` out of the module's " +
	"block `encryption`; the block may go on encrypting the state")

func (c *container) fillSeal(work, sealed, tree *beneath.Dir, module string) error {
	module = path.Join(sourceName, module)
	data := path.Join(module, dataName)
	providers, lock := path.Join(data, providersName), path.Join(module, lockFileName)
	err := seal.Copy(work, tree, c.cfg.SealLimits, func(name string) bool { return name == providers || name == lock })
	if err != nil {
		return err
	}
	if err := checkTree(tree, c.cfg.Paths.work(c.in.RunID), nil); err != nil {
		return err
	}
	if st, err := tree.Lstat(planName); err != nil || st.Mode&0o170000 != 0o100000 {
		return errors.Join(fmt.Errorf("the plan is no regular file"), err)
	}
	plain, err := beginsWith(tree, planName, zipMagic)
	if err != nil {
		return err
	}
	if !plain {
		return errUnreadable
	}
	return c.putInit(sealed, tree, module)
}

// putInit gives the sealed module the providers and the lock file that keeper set aside.
func (c *container) putInit(sealed, tree *beneath.Dir, module string) error {
	folder, err := tree.Dir(module)
	if err != nil {
		return fmt.Errorf("the module's folder is gone: %w", err)
	}
	defer func() { _ = folder.Close() }()
	kept, err := sealed.Dir(keptName)
	if err != nil {
		return err
	}
	defer func() { _ = kept.Close() }()
	lock, err := kept.ReadFile(lockFileName, maxLockFile)
	if err == nil {
		err = writeNew(folder, lockFileName, lock)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	data, err := folder.Dir(dataName)
	if errors.Is(err, fs.ErrNotExist) {
		data, err = folder.Mkdir(dataName, 0o750)
	}
	if err != nil {
		return err
	}
	return errors.Join(c.copyTree(kept, providersName, data, providersName), data.Close())
}
